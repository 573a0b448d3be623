package xlashape

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

const (
	wide = "dimensions {bounds {lower: -9223372036854775808 upper: 9223372036854775807}}"
	x    = "expressions {kind: KIND_DIMENSION}"
)

// messageOf reads a map in protobuf's text format.
func messageOf(t testing.TB, text string) *xlashapev1.IndexingMap {
	t.Helper()
	message := &xlashapev1.IndexingMap{}
	if err := prototext.Unmarshal([]byte(text), message); err != nil {
		t.Fatal(err)
	}
	return message
}

func mapOf(t testing.TB, text string) *EvaluableMap {
	t.Helper()
	m, err := NewEvaluableMap(messageOf(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// node is an expression of two earlier ones.
func node(kind string, left, right int) string {
	return fmt.Sprintf("expressions {kind: KIND_%s operands: [%d, %d]}", kind, left, right)
}

func constant(value int64) string {
	return fmt.Sprintf("expressions {kind: KIND_CONSTANT value: %d}", value)
}

func reasonOf(err error) string {
	var found *Error
	if !errors.As(err, &found) {
		return ""
	}
	return found.Reason
}

func TestDivisionsOfNegativeNumbers(t *testing.T) {
	m := mapOf(t, "dimensions {bounds {lower: -9 upper: 9}} results: [3, 4, 5, 6, 7]"+x+constant(4)+constant(-2)+
		node("FLOOR_DIVIDE", 0, 1)+node("CEIL_DIVIDE", 0, 1)+node("MODULO", 0, 1)+node("MINIMUM", 0, 2)+node("MAXIMUM", 0, 2))
	for value := int64(-9); value <= 9; value++ {
		results, in, err := m.Evaluate(value)
		if err != nil || !in {
			t.Fatalf("%d: %v %v", value, in, err)
		}
		quotient := math.Floor(float64(value) / 4)
		want := []int64{int64(quotient), int64(math.Ceil(float64(value) / 4)), value - 4*int64(quotient), min(value, -2), max(value, -2)}
		for i := range want {
			if results[i] != want[i] {
				t.Errorf("%d: result %d is %d, not %d", value, i, results[i], want[i])
			}
		}
	}
}

// TestAgainstBigIntegers compares the two ways of evaluation near the ends of int64.
func TestAgainstBigIntegers(t *testing.T) {
	m := mapOf(t, wide+wide+x+"expressions {kind: KIND_DIMENSION value: 1}"+node("ADD", 0, 1)+node("MULTIPLY", 0, 1)+constant(7)+constant(1000003)+
		constant(math.MaxInt64)+node("FLOOR_DIVIDE", 3, 4)+node("MODULO", 3, 5)+node("CEIL_DIVIDE", 3, 6)+constant(3)+node("MULTIPLY", 0, 10)+
		"results: [2, 11, 7, 8, 9] constraints {expression: 2 bounds {lower: -9223372036854775808 upper: 9}}")
	random := rand.New(rand.NewPCG(1, 2))
	ends := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}
	for i := range 2000 {
		point := []int64{int64(random.Uint64()) >> random.IntN(64), int64(random.Uint64()) >> random.IntN(64)}
		if i < len(ends)*len(ends) {
			point = []int64{ends[i/len(ends)], ends[i%len(ends)]}
		}
		quick, exact := make([]int64, 5), make([]int64, 5)
		registers := make([]int64, m.registers)
		copy(registers, point)
		for register, value := range m.constants {
			registers[register] = value
		}
		exactIn, err := m.evaluateExactly(slices.Clone(registers), exact)
		quickIn, fits := m.evaluate(registers, quick)
		if fits && (err != nil || quickIn != exactIn) {
			t.Fatalf("%v: in the domain: %v, exactly %v (%v)", point, quickIn, exactIn, err)
		}
		if fits && quickIn {
			for j := range quick {
				if quick[j] != exact[j] {
					t.Fatalf("%v: result %d is %d, exactly %d", point, j, quick[j], exact[j])
				}
			}
		}
		sum := new(big.Int).Add(big.NewInt(point[0]), big.NewInt(point[1]))
		if inDomain := sum.IsInt64() && sum.Int64() <= 9; err == nil && inDomain != exactIn {
			t.Fatalf("%v: %v in the domain", point, exactIn)
		}
	}
}

func TestIntermediateValuesMayExceedInt64(t *testing.T) {
	m := mapOf(t, wide+x+constant(math.MaxInt64)+node("MULTIPLY", 0, 0)+node("FLOOR_DIVIDE", 2, 1)+"results: 3")
	results, in, err := m.Evaluate(math.MaxInt64)
	if err != nil || !in || results[0] != math.MaxInt64 {
		t.Fatal(results, in, err)
	}
}

func TestMistakes(t *testing.T) {
	for _, text := range []string{
		"state: STATE_UNDEFINED",
		wide + x + constant(0) + node("MODULO", 0, 1) + "results: 2",
		wide + x + node("FLOOR_DIVIDE", 0, 0) + "results: 1",
		wide + x + node("ADD", 0, 1) + "results: 1",
		wide + x + "results: 1",
		x + "results: 0",
	} {
		if _, err := NewEvaluableMap(messageOf(t, text)); reasonOf(err) != "INVALID_MAP" {
			t.Errorf("%s: %v", text, err)
		}
	}
	m := mapOf(t, wide+x+constant(2)+node("MULTIPLY", 0, 1)+"results: 2")
	if _, _, err := m.Evaluate(1, 2); reasonOf(err) != "INVALID_INDEX" {
		t.Error(err)
	}
	if _, _, err := m.Evaluate(math.MaxInt64); reasonOf(err) != "SIZE_OVERFLOW" {
		t.Error(err)
	}
	if _, _, err := m.EvaluateBatch([]int64{1}, -1); reasonOf(err) != "INVALID_INDEX" {
		t.Error(err)
	}
}

func TestEmptyMapHasNoPoints(t *testing.T) {
	m := mapOf(t, "state: STATE_KNOWN_EMPTY")
	if _, in, err := m.Evaluate(); in || err != nil {
		t.Fatal(in, err)
	}
	m = mapOf(t, "dimensions {bounds {lower: 3 upper: 2}} results: 0 "+x)
	if _, in, err := m.Evaluate(3); in || err != nil {
		t.Fatal(in, err)
	}
}

func TestValuesThatGrowWithoutEndAreRefused(t *testing.T) {
	message := messageOf(t, wide+x)
	for i := range uint32(40) {
		message.Expressions = append(message.Expressions,
			&xlashapev1.Expression{Kind: xlashapev1.Expression_KIND_MULTIPLY, Operands: []uint32{i, i}})
	}
	message.Results = []uint32{40}
	m, err := NewEvaluableMap(message)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Evaluate(9); reasonOf(err) != "SIZE_OVERFLOW" {
		t.Fatal(err)
	}
}

func BenchmarkEvaluateBatch(b *testing.B) {
	m := mapOf(b, wide+wide+x+"expressions {kind: KIND_DIMENSION value: 1}"+constant(128)+node("MULTIPLY", 0, 2)+node("ADD", 3, 1)+constant(8)+
		node("FLOOR_DIVIDE", 4, 5)+node("MODULO", 4, 5)+"results: [6, 7]")
	points := make([]int64, 2_000_000)
	for i := range 1_000_000 {
		points[2*i], points[2*i+1] = int64(i/128)%8000, int64(i%128)
	}
	for b.Loop() {
		if _, _, err := m.EvaluateBatch(points, 1_000_000); err != nil {
			b.Fatal(err)
		}
	}
}
