"""The values of attributes: one file for each kind of value, which reads it from text, writes it as text, and takes it
from a proto and puts it there.

attribute          Attribute, its Codec and its Context: what an attribute is, and what it may ask the writer;
                   constructors of plain attributes
plain              numbers, flags, strings and lists of numbers; backend_config and frontend_attributes: strings, or
                   JSON as it is
enums              values of enums, and numbers without a name; direction and type of a compare;
                   options of triangular-solve and cholesky
aliasing           output_to_operand_aliasing
devices            iotas of devices, which shardings, meshes and replica groups have; meshes with named axes
dimension_numbers  dim_labels; dimension numbers of dots, gathers and scatters
metadata           metadata: OpMetadata; origin: the arrays of the unoptimized program; debug_attributes of a module;
                   statistics
named_sharding     shardings over the axes of a mesh
precision          operand_precision and the algorithm of a dot; result_accuracy of elementary functions
replica_groups     replica_groups of collectives; source_target_pairs of a collective-permute
shapes             shapes, layout constraints and literals of attributes
sharding           sharding and domain
shuffle            mode and shifts of a shuffle
sparsity           sparsity_config and block_scaling_config of dots and convolutions
tiled_sharding     tiled shardings and their canonical form
window             window, padding of a pad, slices and sizes of slices
"""
