"""The values of attributes. Each file has one kind of value: how to read it from HLO text, how to write it as HLO text,
and how to convert it from and to fields of a proto.

attribute          what an attribute is (Attribute), its value in Python (Codec), what it may ask the writer of text
                   (Context); constructors of simple attributes
plain              numbers, flags, strings and lists of numbers; backend_config and frontend_attributes
enums              values of enums; direction, order and type of a compare; options of triangular-solve and cholesky
aliasing           output_to_operand_aliasing
devices            lists of devices written as an iota, `[2,4]T(1,0)`; meshes of devices with named axes
dimension_numbers  dim_labels; dimension numbers of dots, gathers and scatters
metadata           metadata, origin and statistics of an instruction; debug_attributes of a module
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
