// Command reads uploads an HLO module and prints what its fusions read.
//
//	go run ./examples/reads localhost:50051 attention.hlo.pb
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

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
	request := &xlashapev1.ReadsRequest{Module: xlashape.StoredModule(module.GetName())}
	for read, err := range client.ReadsRows(ctx, request) {
		if err != nil {
			log.Fatal(err)
		}
		if read.GetOpcode() != "fusion" || read.PartRead == nil {
			continue
		}
		fmt.Printf("%s reads %.0f %% of %s\n", read.GetInstruction(), 100*read.GetPartRead(), read.GetOperandName())
		fmt.Printf("  %s\n", strings.ReplaceAll(read.GetMap(), "\n", "\n  "))
	}
}
