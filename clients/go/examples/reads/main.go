// Command reads uploads an HLO module and prints what its fusions read.
//
//	go run ./examples/reads localhost:50051 attention.hlo.pb
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	xlashape "github.com/xlashape/xlashape/clients/go"
	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: reads HOST:PORT FILE")
	}
	content, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	client, err := xlashape.Connect(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	module, _, err := client.UploadModule(ctx, content)
	if err != nil {
		log.Fatal(err)
	}
	request := &xlashapev1.OperandReadsRequest{Module: xlashape.StoredModule(module.GetName()), ReportErrors: true}
	for answer, err := range client.OperandReads(ctx, request) {
		if err != nil {
			log.Fatal(err)
		}
		if answer.GetOpcode() != "fusion" {
			continue
		}
		fmt.Println(answer.GetInstruction())
		for _, read := range answer.GetReads() {
			fmt.Printf("  %s: %s of %d elements\n", read.GetOperandName(), number(read.DistinctElements), read.GetElements())
			for _, access := range read.GetAccesses() {
				fmt.Printf("    %s\n", access.GetMap().GetText())
			}
		}
	}
}

func number(value *int64) string {
	if value == nil {
		return "an unknown number"
	}
	return fmt.Sprint(*value)
}
