"""What nearly every module that makes workloads reads, so that it does so in one line."""

from dovetail.abi cimport DOVETAIL_ALIAS_IN_PLACE
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workload.packed cimport Block, PackedConstants, Packing, new_block
from dovetail_neon.workload.packing cimport acc_packing
from dovetail_neon.workload.rounding cimport parts
from dovetail_neon.workload.workload cimport LONG_PLANE, LONG_ROW, Workload, chunks_of
from dovetail_neon.workload.workload cimport keep, keep_integers, keep_packed, new_workload
