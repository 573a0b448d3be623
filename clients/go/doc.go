// Package xlashape asks an xlashape server about XLA's shapes, layouts, HLO modules and indexing maps.
//
//	client, err := xlashape.Connect("localhost:50051")
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer client.Close()
//	size, err := client.ByteSize(ctx, xlashape.Shape("f32[3,5]{1,0:T(2,2)}"))
//	fmt.Println(size.GetPhysicalBytes()) // 96
//
// Answers are the messages of package xlashapev1, whose comments say what each field means. Errors are *[Error] values with the field of the
// request that is wrong, and for text its line and column. An [EvaluableMap] evaluates an indexing map of an answer without the server.
package xlashape
