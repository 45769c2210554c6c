"""Training in several processes: an engine launches a group with torchrun, and follows it as it follows its own loop.

`plan` checks what is asked and says the command, `files` packs what is trained, `training_group` starts the group and
listens; in each process, `worker` unpacks and trains in step with the others. Both ends speak `messages` over `wire`.
"""
