package xlashape

import "github.com/xlashape/xlashape/clients/go/xlashapev1"

// Shape is a shape in XLA's text: f32[8,128]{1,0:T(8,128)}. A missing layout stands for the default layout.
func Shape(text string) *xlashapev1.ShapeInput {
	return &xlashapev1.ShapeInput{Form: &xlashapev1.ShapeInput_Text{Text: text}}
}

// SerializedShape is a shape as the bytes of an xla.ShapeProto.
func SerializedShape(proto []byte) *xlashapev1.ShapeInput {
	return &xlashapev1.ShapeInput{Form: &xlashapev1.ShapeInput_Serialized{Serialized: proto}}
}

// ModuleText is a module as HLO text.
func ModuleText(text string) *xlashapev1.ModuleInput {
	return &xlashapev1.ModuleInput{Source: &xlashapev1.ModuleInput_Text{Text: text}}
}

// SerializedModule is a module as the bytes of an xla.HloModuleProto or xla.HloProto.
func SerializedModule(proto []byte) *xlashapev1.ModuleInput {
	return &xlashapev1.ModuleInput{Source: &xlashapev1.ModuleInput_Serialized{Serialized: proto}}
}

// StoredModule is a module that the server has, by its name: modules/{sha256}.
func StoredModule(name string) *xlashapev1.ModuleInput {
	return &xlashapev1.ModuleInput{Source: &xlashapev1.ModuleInput_Name{Name: name}}
}

// MapText is an indexing map in text: (d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3].
func MapText(text string) *xlashapev1.MapInput {
	return &xlashapev1.MapInput{Form: &xlashapev1.MapInput_Text{Text: text}}
}

// MapMessage is an indexing map as a message.
func MapMessage(message *xlashapev1.IndexingMap) *xlashapev1.MapInput {
	return &xlashapev1.MapInput{Form: &xlashapev1.MapInput_Map{Map: message}}
}
