"""What every part stands on and no part of clustering: errors, parameters, plug-ins, random streams, memory, cores.

Methods and files of data do not lie here.
"""
