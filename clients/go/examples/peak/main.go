// Command peak prints the peak of a program's memory, the largest buffers at the peak, and what a fusion reads.
//
//	go run ./examples/peak localhost:50051 attention.hlo.pb ynn_fusion.4
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	xlashape "github.com/xlashape/xlashape/clients/go"
	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

func main() {
	content, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	client, err := xlashape.Connect(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, module := context.Background(), xlashape.SerializedModule(content)
	memory, err := client.Memory(ctx, &xlashapev1.MemoryRequest{Module: module, PageSize: 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("peak", memory.GetTotals().GetPeakBytes())
	for _, buffer := range memory.GetPeakBuffers() {
		fmt.Println(buffer.GetName(), buffer.GetBytes(), buffer.GetShape())
	}
	var refused *xlashape.Error
	for read, err := range client.IndexingMapsRows(ctx, &xlashapev1.IndexingMapsRequest{Module: module, Instruction: &os.Args[3]}) {
		if errors.As(err, &refused) {
			fmt.Println(refused.Reason, refused.Field, refused.Details["name"])
			return
		}
		fmt.Println(read.GetOperandName(), read.GetMap())
	}
}
