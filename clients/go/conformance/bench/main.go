// Command bench measures the Go client for tests/benchmarks/bench_clients.py: it prints one JSON object of times in microseconds.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	xlashape "github.com/xlashape/xlashape/clients/go"
	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

const (
	calls  = 2000
	points = 1_000_000
	text   = "(d0, d1) -> ((d0 * 128 + d1) floordiv 8, (d0 * 128 + d1) mod 8), domain: d0 in [0, 7999], d1 in [0, 127]"
)

func main() {
	ctx := context.Background()
	client, err := xlashape.Connect(os.Args[1])
	check(err)
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	stub := xlashapev1.NewShapeServiceClient(connection)
	shape := xlashape.Shape("bf16[20,300]{1,0:T(8,128)(2,1)}")
	var ours, bare []float64
	for range calls {
		ours = append(ours, micros(func() { _, err = client.ByteSize(ctx, shape) }))
		check(err)
		bare = append(bare, micros(func() {
			_, err = stub.ByteSize(ctx, &xlashapev1.ByteSizeRequest{Shapes: []*xlashapev1.ShapeInput{shape}})
		}))
		check(err)
	}
	numbers := make([]int64, 2*points)
	for i := range points {
		numbers[2*i], numbers[2*i+1] = int64(i/128), int64(i%128)
	}
	parsed, err := client.ParseMap(ctx, xlashape.MapText(text))
	check(err)
	m, err := xlashape.NewEvaluableMap(parsed.GetMap())
	check(err)
	result := map[string]float64{"small_call": median(ours), "bare_stub": median(bare)}
	measure := func(name string, run func() error) {
		var times []float64
		for range 5 {
			times = append(times, micros(func() { check(run()) }))
		}
		result[name] = slices.Min(times)
	}
	measure("million_indices", func() error {
		_, err := client.LinearIndices(ctx, xlashape.Shape("f32[8000,128]{1,0:T(8,128)}"), xlashapev1.LinearOrder_LINEAR_ORDER_PHYSICAL, numbers)
		return err
	})
	measure("evaluate_here", func() error { _, _, err := m.EvaluateBatch(numbers, points); return err })
	measure("evaluate_there", func() error { _, _, err := client.EvaluateMap(ctx, xlashape.MapText(text), numbers); return err })
	check(json.NewEncoder(os.Stdout).Encode(result))
}

func micros(run func()) float64 {
	start := time.Now()
	run()
	return float64(time.Since(start).Nanoseconds()) / 1000
}

func median(times []float64) float64 {
	slices.Sort(times)
	return times[len(times)/2]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
