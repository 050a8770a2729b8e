"""A day of driving on a simulated clock: ``python -m soak`` in the folder ``tests``, or ``make soak``.

Memory, open files and latency of the localizer and of the service must stay flat. The day is the clock of the messages:
a filmed drive is driven to and fro, with the odometry of every second and a frame every few seconds, as fast as the
answers come. The town, the bundle and the number of poses are small, so that a day passes in minutes.
"""
