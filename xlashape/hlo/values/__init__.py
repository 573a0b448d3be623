"""The values of attributes: one file for each kind of value, which reads it from text, writes it as text, and takes it from a proto and puts it there.

attribute             Attribute, its Codec and its Context: what an attribute is, and what it may ask the writer; constructors of plain attributes
plain                 numbers, flags, strings and lists of numbers
enums                 values of enums, and numbers without a name
aliasing              output_to_operand_aliasing
comparison            direction and type of a compare
convolution_numbers   dim_labels
debug_attributes      debug_attributes of a module
device_lists          iotas of devices, which shardings, meshes and replica groups have
dot_numbers           dimension numbers of dots and ragged dots
gather_numbers        dimension numbers of gathers
linear_algebra        options of triangular-solve and cholesky
mesh                  meshes of devices with named axes
metadata              metadata: OpMetadata
named_sharding        shardings over the axes of a mesh
json_objects          backend_config and frontend_attributes: strings, or JSON as it is
origin                origin: the arrays of the unoptimized program
padding               padding of a pad
precision             operand_precision and the algorithm of a dot
replica_groups        replica_groups of collectives
result_accuracy       result_accuracy of elementary functions
scatter_numbers       dimension numbers of scatters
shapes                shapes, layout constraints and literals of attributes
sharding              sharding and domain
shuffle               mode and shifts of a shuffle
slices                slices and sizes of slices
source_target_pairs   source_target_pairs of a collective-permute
sparsity              sparsity_config and block_scaling_config of dots and convolutions
statistics            statistics
tiled_sharding        tiled shardings and their canonical form
window                window
"""
