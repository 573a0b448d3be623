package xlashape

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// maxBits bounds intermediate values. Maps of XLA stay below 128 bits; a map that multiplies without end must not take all memory.
const maxBits = 1 << 16

// A Map is an indexing map that can be evaluated without a server. It is safe for use by several goroutines at once.
type Map struct {
	message     *xlashapev1.IndexingMap
	lower       []int64 // of each variable: dimensions, ranges, runtime
	upper       []int64
	nodes       []node
	constraints []constraint
	results     []uint32
	isEmpty     bool
}

type node struct {
	kind     xlashapev1.Expression_Kind
	value    int64 // of a constant its value, of a variable its position in a point
	operands []uint32
}

type constraint struct {
	node         uint32
	lower, upper int64
}

// NewMap checks a map, such as one of an answer of the server, and prepares it for evaluation. The Reason of the error is INVALID_MAP if the map is
// undefined, or if an expression uses a later one, a variable that does not exist, a divisor that is not a positive constant, or too few operands.
func NewMap(message *xlashapev1.IndexingMap) (*Map, error) {
	switch message.GetState() {
	case xlashapev1.IndexingMap_STATE_UNSPECIFIED, xlashapev1.IndexingMap_STATE_DEFINED, xlashapev1.IndexingMap_STATE_KNOWN_EMPTY:
	case xlashapev1.IndexingMap_STATE_UNDEFINED:
		return nil, mistake("INVALID_MAP", "state", "an undefined map cannot be evaluated")
	default:
		return nil, mistake("INVALID_MAP", "state", "unknown state %d", message.GetState())
	}
	m := &Map{message: message, isEmpty: message.GetState() == xlashapev1.IndexingMap_STATE_KNOWN_EMPTY, results: message.GetResults()}
	for _, group := range [][]*xlashapev1.Variable{message.GetDimensions(), message.GetRanges(), message.GetRuntime()} {
		for _, variable := range group {
			m.lower = append(m.lower, variable.GetBounds().GetLower())
			m.upper = append(m.upper, variable.GetBounds().GetUpper())
		}
	}
	for i, expression := range message.GetExpressions() {
		made, err := m.node(i, expression)
		if err != nil {
			return nil, err
		}
		m.nodes = append(m.nodes, made)
	}
	for i, result := range m.results {
		if int64(result) >= int64(len(m.nodes)) {
			return nil, mistake("INVALID_MAP", "results", "result %d is expression %d of %d", i, result, len(m.nodes))
		}
	}
	for i, limit := range message.GetConstraints() {
		if int64(limit.GetExpression()) >= int64(len(m.nodes)) {
			return nil, mistake("INVALID_MAP", "constraints", "constraint %d is on expression %d of %d", i, limit.GetExpression(), len(m.nodes))
		}
		m.constraints = append(m.constraints, constraint{limit.GetExpression(), limit.GetBounds().GetLower(), limit.GetBounds().GetUpper()})
	}
	return m, nil
}

func (m *Map) node(i int, expression *xlashapev1.Expression) (node, error) {
	made := node{expression.GetKind(), expression.GetValue(), expression.GetOperands()}
	invalid := func(what string) (node, error) {
		return node{}, mistake("INVALID_MAP", "expressions", "expression %d %s", i, what)
	}
	dims, ranges := int64(len(m.message.GetDimensions())), int64(len(m.message.GetRanges()))
	first, count := int64(0), int64(0)
	switch made.kind {
	case xlashapev1.Expression_KIND_CONSTANT:
		return made, nil
	case xlashapev1.Expression_KIND_DIMENSION:
		count = dims
	case xlashapev1.Expression_KIND_RANGE:
		first, count = dims, ranges
	case xlashapev1.Expression_KIND_RUNTIME:
		first, count = dims+ranges, int64(len(m.lower))-dims-ranges
	case xlashapev1.Expression_KIND_ADD, xlashapev1.Expression_KIND_MULTIPLY, xlashapev1.Expression_KIND_FLOOR_DIVIDE,
		xlashapev1.Expression_KIND_CEIL_DIVIDE, xlashapev1.Expression_KIND_MODULO, xlashapev1.Expression_KIND_MINIMUM,
		xlashapev1.Expression_KIND_MAXIMUM:
		for _, operand := range made.operands {
			if int64(operand) >= int64(i) {
				return invalid("uses itself or a later expression")
			}
		}
		if divides(made.kind) {
			if len(made.operands) != 2 {
				return invalid("divides, and has not exactly two operands")
			}
			if divisor := m.nodes[made.operands[1]]; divisor.kind != xlashapev1.Expression_KIND_CONSTANT || divisor.value <= 0 {
				return invalid("divides by what is not a positive constant")
			}
		} else if len(made.operands) < 2 {
			return invalid("has fewer than two operands")
		}
		return made, nil
	default:
		return invalid("is of an unknown kind")
	}
	if made.value < 0 || made.value >= count {
		return invalid("is a variable that the map does not have")
	}
	made.value += first
	return made, nil
}

func divides(kind xlashapev1.Expression_Kind) bool {
	return kind == xlashapev1.Expression_KIND_FLOOR_DIVIDE || kind == xlashapev1.Expression_KIND_CEIL_DIVIDE || kind == xlashapev1.Expression_KIND_MODULO
}

// Message returns the message that the map was made of.
func (m *Map) Message() *xlashapev1.IndexingMap { return m.message }

// Variables returns how many numbers a point has: one for each dimension, range and runtime variable, in this order.
func (m *Map) Variables() int { return len(m.lower) }

// Results returns how many numbers the map gives for a point.
func (m *Map) Results() int { return len(m.results) }

// Evaluate returns the results at a point, and whether the point is in the domain; without results if it is not. The Reason of the error is
// INVALID_INDEX for a point of too few or too many numbers, SIZE_OVERFLOW for a result that does not fit int64.
func (m *Map) Evaluate(point ...int64) (results []int64, inDomain bool, err error) {
	all, in, err := m.EvaluateBatch(point, 1)
	if err != nil || !in[0] {
		return nil, false, err
	}
	return all, true, nil
}

// EvaluateBatch returns the results at `count` points, which stand one after another, and for each point whether it is in the domain. The results for
// a point outside the domain are 0. Errors are those of Evaluate.
func (m *Map) EvaluateBatch(points []int64, count int) (results []int64, inDomain []bool, err error) {
	width := len(m.lower)
	if count < 0 || len(points) != count*width {
		return nil, nil, mistake("INVALID_INDEX", "points", "%d points of %d variables have %d numbers, found %d", count, width, count*width, len(points))
	}
	results, inDomain = make([]int64, count*len(m.results)), make([]bool, count)
	values := make([]int64, len(m.nodes))
	for i := range count {
		point, result := points[i*width:(i+1)*width], results[i*len(m.results):(i+1)*len(m.results)]
		in, fits := m.evaluate(point, values, result)
		if !fits {
			if in, err = m.evaluateExactly(point, result); err != nil {
				return nil, nil, err
			}
		}
		inDomain[i] = in
	}
	return results, inDomain, nil
}

func (m *Map) inBounds(point []int64) bool {
	if m.isEmpty {
		return false
	}
	for i, value := range point {
		if value < m.lower[i] || value > m.upper[i] {
			return false
		}
	}
	return true
}

// evaluate works with int64; fits is false if a value of an expression does not fit.
func (m *Map) evaluate(point, values, result []int64) (in, fits bool) {
	if !m.inBounds(point) {
		return false, true
	}
	for i := range m.nodes {
		n := &m.nodes[i]
		switch n.kind {
		case xlashapev1.Expression_KIND_CONSTANT:
			values[i] = n.value
			continue
		case xlashapev1.Expression_KIND_DIMENSION, xlashapev1.Expression_KIND_RANGE, xlashapev1.Expression_KIND_RUNTIME:
			values[i] = point[n.value]
			continue
		}
		value := values[n.operands[0]]
		for _, operand := range n.operands[1:] {
			other := values[operand]
			switch n.kind {
			case xlashapev1.Expression_KIND_ADD:
				sum := value + other
				if (sum > value) != (other > 0) && other != 0 {
					return false, false
				}
				value = sum
			case xlashapev1.Expression_KIND_MULTIPLY:
				product, ok := multiplied(value, other)
				if !ok {
					return false, false
				}
				value = product
			case xlashapev1.Expression_KIND_FLOOR_DIVIDE:
				value = floorDivided(value, other)
			case xlashapev1.Expression_KIND_CEIL_DIVIDE:
				// Not the negative of the negative's quotient: the least int64 has no negative.
				quotient := value / other
				if value%other > 0 {
					quotient++
				}
				value = quotient
			case xlashapev1.Expression_KIND_MODULO:
				if value %= other; value < 0 {
					value += other
				}
			case xlashapev1.Expression_KIND_MINIMUM:
				value = min(value, other)
			case xlashapev1.Expression_KIND_MAXIMUM:
				value = max(value, other)
			}
		}
		values[i] = value
	}
	for _, limit := range m.constraints {
		if value := values[limit.node]; value < limit.lower || value > limit.upper {
			return false, true
		}
	}
	for i, position := range m.results {
		result[i] = values[position]
	}
	return true, true
}

// evaluateExactly works with integers of any size.
func (m *Map) evaluateExactly(point, result []int64) (bool, error) {
	values := make([]*big.Int, len(m.nodes))
	for i, n := range m.nodes {
		switch n.kind {
		case xlashapev1.Expression_KIND_CONSTANT:
			values[i] = big.NewInt(n.value)
			continue
		case xlashapev1.Expression_KIND_DIMENSION, xlashapev1.Expression_KIND_RANGE, xlashapev1.Expression_KIND_RUNTIME:
			values[i] = big.NewInt(point[n.value])
			continue
		}
		value := new(big.Int).Set(values[n.operands[0]])
		for _, operand := range n.operands[1:] {
			other := values[operand]
			switch n.kind {
			case xlashapev1.Expression_KIND_ADD:
				value.Add(value, other)
			case xlashapev1.Expression_KIND_MULTIPLY:
				value.Mul(value, other)
			case xlashapev1.Expression_KIND_FLOOR_DIVIDE: // Div and Mod are Euclidean, which for positive divisors is the floor
				value.Div(value, other)
			case xlashapev1.Expression_KIND_CEIL_DIVIDE:
				value.Neg(value.Div(value.Neg(value), other))
			case xlashapev1.Expression_KIND_MODULO:
				value.Mod(value, other)
			case xlashapev1.Expression_KIND_MINIMUM:
				if other.Cmp(value) < 0 {
					value.Set(other)
				}
			case xlashapev1.Expression_KIND_MAXIMUM:
				if other.Cmp(value) > 0 {
					value.Set(other)
				}
			}
			if value.BitLen() > maxBits {
				return false, mistake("SIZE_OVERFLOW", "map", "expression %d has more than %d bits", i, maxBits)
			}
		}
		values[i] = value
	}
	for _, limit := range m.constraints {
		value := values[limit.node]
		if value.Cmp(big.NewInt(limit.lower)) < 0 || value.Cmp(big.NewInt(limit.upper)) > 0 {
			return false, nil
		}
	}
	for i, position := range m.results {
		if !values[position].IsInt64() {
			return false, mistake("SIZE_OVERFLOW", "map", "result %d does not fit int64: %s", i, values[position].Text(10))
		}
	}
	for i, position := range m.results {
		result[i] = values[position].Int64()
	}
	return true, nil
}

func floorDivided(value, divisor int64) int64 {
	quotient := value / divisor
	if value%divisor < 0 {
		quotient--
	}
	return quotient
}

func multiplied(a, b int64) (int64, bool) {
	high, low := bits.Mul64(magnitude(a), magnitude(b))
	isNegative := (a < 0) != (b < 0)
	if high != 0 || low > math.MaxInt64+1 || (low == math.MaxInt64+1 && !isNegative) {
		return 0, false
	}
	if isNegative {
		return -int64(low), true // the negative of 2⁶³ is itself
	}
	return int64(low), true
}

func magnitude(value int64) uint64 {
	if value < 0 {
		return -uint64(value)
	}
	return uint64(value)
}
