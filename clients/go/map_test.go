package xlashape

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

func parsed(t *testing.T, text string) *Map {
	t.Helper()
	m, err := ParseMap(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func reasonOf(err error) string {
	var found *Error
	if !errors.As(err, &found) {
		return ""
	}
	return found.Reason
}

func TestDivisionsOfNegativeNumbers(t *testing.T) {
	m := parsed(t, "(d0) -> (d0 floordiv 4, d0 ceildiv 4, d0 mod 4, min(d0, -2), max(d0, -2)), domain: d0 in [-9, 9]")
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
	m := parsed(t, `(d0, d1) -> (d0 + d1, d0 * 3 - d1, (d0 * d1) floordiv 7, (d0 * d1) mod 1000003, (d0 * d1) ceildiv 9223372036854775807),
		domain: d0 in [-9223372036854775808, 9223372036854775807], d1 in [-9223372036854775808, 9223372036854775807], d0 + d1 in [-9223372036854775808, 9]`)
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
	m := parsed(t, "(d0) -> ((d0 * d0) floordiv 9223372036854775807), domain: d0 in [0, 9223372036854775807]")
	results, in, err := m.Evaluate(math.MaxInt64)
	if err != nil || !in || results[0] != math.MaxInt64 {
		t.Fatal(results, in, err)
	}
}

func TestMistakes(t *testing.T) {
	for text, reason := range map[string]string{
		"UNDEFINED": "INVALID_MAP",
		"(d0) -> (d0 mod 0), domain: d0 in [0, 3]":             "INVALID_MAP",
		"(d0) -> (7 / d0), domain: d0 in [0, 3]":               "INVALID_MAP",
		"(d0) -> (d1), domain: d0 in [0, 3]":                   "PARSE",
		"(d0) -> (d0)":                                         "PARSE",
		"(d0, d0) -> (d0), domain: d0 in [0, 3]":               "PARSE",
		"(d0) -> (d0, domain: d0 in [0, 3]":                    "PARSE",
		"":                                                     "PARSE",
		"(d0) -> (99999999999999999999), domain: d0 in [0, 3]": "PARSE",
		"(d0) -> (" + strings.Repeat("(", 100_000) + "d0), domain: d0 in [0, 3]":   "PARSE",
		"(d0) -> (" + strings.Repeat("-", 1_000_000) + "d0), domain: d0 in [0, 3]": "PARSE",
		"(d0) -> (d0), domain: d0 in [0, 3] and more":                              "PARSE",
		"(d0) -> (\xff), domain: d0 in [0, 3]":                                     "PARSE",
	} {
		if _, err := ParseMap(text); reasonOf(err) != reason {
			t.Errorf("%.60q: %v, not %s", text, err, reason)
		}
	}
	m := parsed(t, "(d0) -> (d0 * 2), domain: d0 in [0, 9223372036854775807]")
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

func TestParseSaysWhere(t *testing.T) {
	_, err := ParseMap("(d0) -> (d0),\ndomain: d0 in [0, ?]")
	var found *Error
	if !errors.As(err, &found) || found.Line != 2 || found.Column != 19 {
		t.Fatal(err)
	}
	if want := `xlashape: line 2, column 19: expected an integer of 64 bits, found "?" (PARSE)`; err.Error() != want {
		t.Fatal(err)
	}
}

func TestEmptyMapHasNoPoints(t *testing.T) {
	m := parsed(t, "KNOWN EMPTY")
	if _, in, err := m.Evaluate(); in || err != nil {
		t.Fatal(in, err)
	}
	m = parsed(t, "(d0) -> (d0), domain: d0 in [3, 2]")
	if _, in, err := m.Evaluate(3); in || err != nil {
		t.Fatal(in, err)
	}
}

func TestValuesThatGrowWithoutEndAreRefused(t *testing.T) {
	message := proto.CloneOf(parsed(t, "(d0) -> (d0), domain: d0 in [0, 9]").Message())
	for i := range uint32(40) {
		message.Expressions = append(message.Expressions,
			&xlashapev1.Expression{Kind: xlashapev1.Expression_KIND_MULTIPLY, Operands: []uint32{i, i}})
	}
	message.Results = []uint32{40}
	m, err := NewMap(message)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Evaluate(9); reasonOf(err) != "SIZE_OVERFLOW" {
		t.Fatal(err)
	}
}

func FuzzParseMap(f *testing.F) {
	f.Add("(d0)[s0]{rt0} -> (d0 * 4 + s0 mod 3, min(rt0, -d0)), domain: d0 in [0, 9], s0 in [0, 3], rt0 in [0, 1], d0 + s0 in [0, 9]")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMap(text)
		if err != nil {
			if reasonOf(err) == "" {
				t.Fatalf("not an *Error: %v", err)
			}
			return
		}
		point := make([]int64, m.Variables())
		for i, variable := range m.variables {
			point[i] = variable.lower
		}
		if _, _, err := m.Evaluate(point...); err != nil && reasonOf(err) != "SIZE_OVERFLOW" {
			t.Fatal(err)
		}
	})
}

func BenchmarkEvaluateBatch(b *testing.B) {
	m, err := ParseMap("(d0, d1) -> ((d0 * 128 + d1) floordiv 8, (d0 * 128 + d1) mod 8), domain: d0 in [0, 7999], d1 in [0, 127]")
	if err != nil {
		b.Fatal(err)
	}
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
