package xlashape

import (
	"errors"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// mapOf reads a map of one dimension in protobuf's text format: its expressions 0 and 1 are the dimension and a constant.
func mapOf(t testing.TB, text string) (*EvaluableMap, error) {
	t.Helper()
	message := &xlashapev1.IndexingMap{}
	text = "dimensions {bounds {lower: -9223372036854775808 upper: 9223372036854775807}} expressions {kind: KIND_DIMENSION}" + text
	if err := prototext.Unmarshal([]byte(text), message); err != nil {
		t.Fatal(err)
	}
	return NewEvaluableMap(message)
}

func reasonOf(err error) string {
	var found *Error
	if !errors.As(err, &found) {
		return ""
	}
	return found.Reason
}

func TestAMapThatDoesNotFitIsForTheServer(t *testing.T) {
	if _, err := mapOf(t, "results: 0"); reasonOf(err) != "SIZE_OVERFLOW" {
		t.Error(err)
	}
}

// TestAMapThatLies evaluates a map that says wrongly that it fits: its numbers wrap around.
func TestAMapThatLies(t *testing.T) {
	for kind, want := range map[string]int64{"ADD": math.MinInt64, "MULTIPLY": math.MaxInt64} {
		m, err := mapOf(t, "expressions {kind: KIND_CONSTANT value: 1} expressions {kind: KIND_"+kind+" operands: [0, 1]} results: 2 fits_int64: true")
		if err != nil {
			t.Fatal(err)
		}
		results, in, err := m.Evaluate(math.MaxInt64)
		if !slices.Equal(results, []int64{want}) || !in || err != nil {
			t.Errorf("%s: %v %v %v", kind, results, in, err)
		}
	}
}
