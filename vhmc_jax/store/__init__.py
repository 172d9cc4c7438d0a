"""Records and runs on disk: files that are complete or not there, in NumPy's own format, without pickle.

==============  ========================================================================================================
``atomic``      One file: written under another name, then renamed. A crash leaves the old file or the new one.
``records``     Our records as a description and arrays, and back.
``files``       A record in a file: an ``.npz`` that ``numpy.load`` opens too.
``folder``      Files of one run: what the run is, a lock, a manifest with checksums.
``fingerprint`` What tells one run from another: arrays, functions, versions.
``stitched``    Arrays whose parts lie in several files, read where they are asked for.
``run``         ``open_run``: draws of a run, also while it goes on.
==============  ========================================================================================================
"""

from vhmc_jax.store.files import load, save
from vhmc_jax.store.run import StoredRun, open_run

__all__ = ["StoredRun", "load", "open_run", "save"]
