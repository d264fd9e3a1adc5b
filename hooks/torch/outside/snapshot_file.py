# SPDX-License-Identifier: Apache-2.0
# Run before control_snapshot.py and snapshot_request.py, inside the program.
def write_snapshot(memory, path):
    """torch.cuda.memory writes the pickle, so files/write_file.h cannot: the same rules, in Python.

    Never half a file; links are followed; what exists and is no regular file is written to as it is.
    """
    import os
    import stat
    import tempfile

    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        # A FIFO that nobody reads is an error, not a reason to wait.
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY))
        memory._dump_snapshot(path)
        return
    path = os.path.realpath(path)
    # Exclusive, mode 0600.
    file, temporary = tempfile.mkstemp(prefix=".cinch-", suffix=".tmp", dir=os.path.dirname(path))
    os.close(file)
    try:
        memory._dump_snapshot(temporary)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


