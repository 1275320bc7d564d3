"""What a cluster was asked for over days: traces of gangs with their sizes, arrival times and runtimes.

Here live the value, its CSV format with reader and writer, converters from published traces, and the generator of
synthetic ones. Nothing here schedules anything; `simulation/study` plays traces.
"""
