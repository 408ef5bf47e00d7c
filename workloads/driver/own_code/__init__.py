"""What a script's own Python may do behind the back of TensorFlow: read, change and keep, in which part of a training.

`reached` finds the objects that code may use, `changing` what code may change by its names and instructions, and
`lasting` what it has changed when it ran. `step`, `callbacks` and `children` say which code of the script runs where,
and `beside` combines them.
"""
