package xlashape_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/protobuf/encoding/prototext"

	xlashape "github.com/xlashape/xlashape/clients/go"
	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

func ExampleConnect() {
	client, err := xlashape.Connect("localhost:50051",
		xlashape.WithTimeout(10*time.Second),
		xlashape.WithTokenSource(func(context.Context) (string, error) { return os.Getenv("XLASHAPE_TOKEN"), nil }))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.WaitUntilReady(ctx); err != nil {
		log.Fatal(err)
	}
	size, err := client.ByteSize(ctx, xlashape.Shape("f32[3,5]{1,0:T(2,2)}"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(size.GetPhysicalBytes()) // 96
}

func ExampleClient_UploadModule() {
	ctx := context.Background()
	client, err := xlashape.Connect("localhost:50051")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	content, err := os.ReadFile("attention.hlo.pb")
	if err != nil {
		log.Fatal(err)
	}
	module, sent, err := client.UploadModule(ctx, content)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(module.GetName(), sent) // sent is false if the server has the module already
	memory, err := client.Memory(ctx, &xlashapev1.MemoryRequest{Module: xlashape.StoredModule(module.GetName())})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(memory.GetTotals().GetPeakBytes())
}

// A loop that ends early ends the call.
func ExampleClient_ListInstructions() {
	client, err := xlashape.Connect("localhost:50051")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	request := &xlashapev1.ListInstructionsRequest{Module: xlashape.ModuleText("HloModule m\n\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n")}
	for instruction, err := range client.ListInstructions(context.Background(), request) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(instruction.GetName(), instruction.GetShape()) // p f32[2]{0}
	}
}

func ExampleError() {
	client, err := xlashape.Connect("localhost:50051")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_, err = client.ByteSize(context.Background(), xlashape.Shape("f32[3,5"))
	var refused *xlashape.Error
	if errors.As(err, &refused) && refused.Reason == xlashape.ReasonParse {
		fmt.Println(refused.Field, refused.Line, refused.Column) // shapes[0].text 1 8
	}
}

// The map is that of an answer, such as one of ParseMap: (d0) -> (d0 floordiv 4), domain: d0 in [-8, 8].
func ExampleEvaluableMap() {
	answer := &xlashapev1.IndexingMap{}
	if err := prototext.Unmarshal([]byte(`
		dimensions { bounds { lower: -8 upper: 8 } }
		expressions { kind: KIND_DIMENSION }
		expressions { kind: KIND_CONSTANT value: 4 }
		expressions { kind: KIND_FLOOR_DIVIDE operands: [0, 1] }
		results: 2
		fits_int64: true
	`), answer); err != nil {
		log.Fatal(err)
	}
	m, err := xlashape.NewEvaluableMap(answer)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Evaluate(-3))
	fmt.Println(m.Evaluate(9)) // outside the domain
	// Output:
	// [-1] true <nil>
	// [] false <nil>
}
