"""Trains in one process of its own: steps are made there, everything else of the engine stays in the kernel.

`server` keeps a process warm that has imported torch and forks the process of a training, `handover` carries the
training's parts to it, `training_process` follows it from the kernel, `worker` is what runs there. Both ends speak
`messages`.
"""
