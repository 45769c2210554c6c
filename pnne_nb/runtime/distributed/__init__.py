"""Trains in several processes: an engine launches a group with torchrun, and follows it as it follows its own loop.

`launch.plan` checks what is asked and writes the command, `transport` packs what is trained, `training_group` starts the
group and listens; in each process, `worker` unpacks and trains in step with the others. Both ends exchange
`transport.worker_messages` over `transport.connection`.
"""
