//! What stands for a shape, a module or a map in a request.

use crate::v1::{map_input, module_input, shape_input, IndexingMap, MapInput, Module, ModuleInput, ShapeInput};

impl ShapeInput {
    /// A shape in XLA's text: `f32[8,128]{1,0:T(8,128)}`. A missing layout stands for the default layout.
    pub fn text(text: impl Into<String>) -> Self {
        ShapeInput { form: Some(shape_input::Form::Text(text.into())) }
    }

    /// A shape as the bytes of an `xla.ShapeProto`.
    pub fn serialized(proto: impl Into<Vec<u8>>) -> Self {
        ShapeInput { form: Some(shape_input::Form::Serialized(proto.into())) }
    }
}

impl From<&str> for ShapeInput {
    fn from(text: &str) -> Self {
        ShapeInput::text(text)
    }
}

impl From<String> for ShapeInput {
    fn from(text: String) -> Self {
        ShapeInput::text(text)
    }
}

impl ModuleInput {
    /// A module as HLO text.
    pub fn text(text: impl Into<String>) -> Self {
        ModuleInput { source: Some(module_input::Source::Text(text.into())) }
    }

    /// A module as the bytes of an `xla.HloModuleProto` or `xla.HloProto`.
    pub fn serialized(proto: impl Into<Vec<u8>>) -> Self {
        ModuleInput { source: Some(module_input::Source::Serialized(proto.into())) }
    }

    /// A module that the server has, by its name: `modules/{sha256}`.
    pub fn stored(name: impl Into<String>) -> Self {
        ModuleInput { source: Some(module_input::Source::Name(name.into())) }
    }
}

impl From<&Module> for ModuleInput {
    fn from(module: &Module) -> Self {
        ModuleInput::stored(&module.name)
    }
}

impl MapInput {
    /// An indexing map in text: `(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3]`.
    pub fn text(text: impl Into<String>) -> Self {
        MapInput { form: Some(map_input::Form::Text(text.into())) }
    }
}

impl From<&str> for MapInput {
    fn from(text: &str) -> Self {
        MapInput::text(text)
    }
}

impl From<String> for MapInput {
    fn from(text: String) -> Self {
        MapInput::text(text)
    }
}

impl From<IndexingMap> for MapInput {
    fn from(map: IndexingMap) -> Self {
        MapInput { form: Some(map_input::Form::Map(map)) }
    }
}
