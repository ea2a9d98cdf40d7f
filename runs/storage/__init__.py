"""Files of the results folder: locks between processes, errors of the disk, joint writing of files."""
