package xlashape

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"strconv"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// An EvaluableMap is an indexing map that can be evaluated without a server. It is safe for use by several goroutines at once.
type EvaluableMap struct {
	message     *xlashapev1.IndexingMap
	isEmpty     bool
	variables   []bounds      // dimensions, ranges, runtime; their values are the first registers
	constants   map[int]int64 // by register
	steps       []step
	registers   int
	constraints []bounds
	results     []int // registers
}

type bounds struct {
	register     int
	lower, upper int64
}

// A step computes registers[target] = registers[left] kind registers[right].
type step struct {
	kind                xlashapev1.Expression_Kind
	target, left, right int
}

// NewEvaluableMap checks a map, such as one of an answer of the server, and prepares it for evaluation. The Reason of the error is INVALID_MAP if the map is
// undefined, or if an expression uses a later one, a variable that does not exist, a divisor that is not a positive constant, or too few operands.
func NewEvaluableMap(message *xlashapev1.IndexingMap) (*EvaluableMap, error) {
	if state := message.GetState(); state < xlashapev1.IndexingMap_STATE_UNSPECIFIED || state >= xlashapev1.IndexingMap_STATE_UNDEFINED {
		return nil, mistake("INVALID_MAP", "state", "a map in state %v cannot be evaluated", state)
	}
	m := &EvaluableMap{message: message, isEmpty: message.GetState() == xlashapev1.IndexingMap_STATE_KNOWN_EMPTY, constants: map[int]int64{}}
	groups := [][]*xlashapev1.Variable{message.GetDimensions(), message.GetRanges(), message.GetRuntime()}
	var first [3]int // variable of each group
	for i, group := range groups {
		first[i] = m.registers
		for _, variable := range group {
			m.variables = append(m.variables, bounds{m.register(), variable.GetBounds().GetLower(), variable.GetBounds().GetUpper()})
		}
	}
	registers := make([]int, 0, len(message.GetExpressions())) // of the expressions
	for i, expression := range message.GetExpressions() {
		kind, operands := expression.GetKind(), expression.GetOperands()
		invalid := func(what string) error {
			return mistake("INVALID_MAP", "expressions["+strconv.Itoa(i)+"]", "%s", what)
		}
		switch {
		case kind == xlashapev1.Expression_KIND_CONSTANT:
			registers = append(registers, m.register())
			m.constants[registers[i]] = expression.GetValue()
			continue
		case kind <= xlashapev1.Expression_KIND_UNSPECIFIED || kind > xlashapev1.Expression_KIND_MAXIMUM:
			return nil, invalid("is of an unknown kind")
		case kind <= xlashapev1.Expression_KIND_RUNTIME:
			number, group := expression.GetValue(), kind-xlashapev1.Expression_KIND_DIMENSION
			if number < 0 || number >= int64(len(groups[group])) {
				return nil, invalid("is a variable that the map does not have")
			}
			registers = append(registers, first[group]+int(number))
			continue
		}
		if len(operands) < 2 || divides(kind) && len(operands) > 2 {
			return nil, invalid("has too few operands, or too many")
		}
		for _, operand := range operands {
			if int64(operand) >= int64(i) {
				return nil, invalid("uses itself or a later expression")
			}
		}
		if divides(kind) && m.constants[registers[operands[1]]] <= 0 {
			return nil, invalid("divides by what is not a positive constant")
		}
		left := registers[operands[0]]
		for _, operand := range operands[1:] {
			m.steps = append(m.steps, step{kind, m.registers, left, registers[operand]})
			left = m.register()
		}
		registers = append(registers, left)
	}
	for i, result := range message.GetResults() {
		if int64(result) >= int64(len(registers)) {
			return nil, mistake("INVALID_MAP", "results["+strconv.Itoa(i)+"]", "there is no expression %d", result)
		}
		m.results = append(m.results, registers[result])
	}
	for i, constraint := range message.GetConstraints() {
		if int64(constraint.GetExpression()) >= int64(len(registers)) {
			return nil, mistake("INVALID_MAP", "constraints["+strconv.Itoa(i)+"]", "there is no expression %d", constraint.GetExpression())
		}
		interval := constraint.GetBounds()
		m.constraints = append(m.constraints, bounds{registers[constraint.GetExpression()], interval.GetLower(), interval.GetUpper()})
	}
	return m, nil
}

func (m *EvaluableMap) register() int {
	m.registers++
	return m.registers - 1
}

// Message returns the message that the map was made of.
func (m *EvaluableMap) Message() *xlashapev1.IndexingMap { return m.message }

// Variables returns how many numbers a point has: one for each dimension, range and runtime variable, in this order.
func (m *EvaluableMap) Variables() int { return len(m.variables) }

// Results returns how many numbers the map gives for a point.
func (m *EvaluableMap) Results() int { return len(m.results) }

// Evaluate returns the results at a point, and whether the point is in the domain; without results if it is not. The Reason of the error is
// INVALID_INDEX for a point of too few or too many numbers, SIZE_OVERFLOW for a result that does not fit int64, and for a value on the way to the results
// or to a constraint that does not fit 128 bits.
func (m *EvaluableMap) Evaluate(point ...int64) (results []int64, inDomain bool, err error) {
	all, in, err := m.EvaluateBatch(point, 1)
	if err != nil || !in[0] {
		return nil, false, err
	}
	return all, true, nil
}

// EvaluateBatch returns the results at `count` points, which stand one after another, and for each point whether it is in the domain. The results for
// a point outside the domain are 0. Errors are those of Evaluate; the Field names the first number of the point.
func (m *EvaluableMap) EvaluateBatch(points []int64, count int) (results []int64, inDomain []bool, err error) {
	width, height := len(m.variables), len(m.results)
	if count < 0 || len(points) != count*width {
		return nil, nil, mistake("INVALID_INDEX", "points", "%d points of %d variables have %d numbers, found %d", count, width, count*width, len(points))
	}
	results, inDomain = make([]int64, count*height), make([]bool, count)
	registers := make([]int64, m.registers)
	for i, value := range m.constants {
		registers[i] = value
	}
	for i := range count {
		point, result := points[i*width:(i+1)*width], results[i*height:(i+1)*height]
		if !m.inBounds(point) {
			continue
		}
		copy(registers, point)
		in, fits := m.evaluate(registers, result)
		if !fits {
			if in, err = m.evaluateExactly(registers, result); err != nil {
				field := "map"
				if width > 0 {
					field = "points[" + strconv.Itoa(i*width) + "]"
				}
				return nil, nil, mistake("SIZE_OVERFLOW", field, "%s", err.Error())
			}
		}
		inDomain[i] = in
	}
	return results, inDomain, nil
}

func (m *EvaluableMap) inBounds(point []int64) bool {
	for i, value := range point {
		if value < m.variables[i].lower || value > m.variables[i].upper {
			return false
		}
	}
	return !m.isEmpty
}

// evaluate works with int64; fits is false if a value on the way does not fit.
func (m *EvaluableMap) evaluate(registers, result []int64) (in, fits bool) {
	for i := range m.steps {
		s := &m.steps[i]
		value, right := registers[s.left], registers[s.right]
		switch s.kind {
		case xlashapev1.Expression_KIND_ADD:
			sum := value + right
			if (sum < value) != (right < 0) {
				return false, false
			}
			value = sum
		case xlashapev1.Expression_KIND_MULTIPLY:
			// The product of the numbers as unsigned ones has 2⁶⁴ times the other factor too much in its upper half for each that is negative.
			high, low := bits.Mul64(uint64(value), uint64(right))
			if int64(high)-(value>>63&right)-(right>>63&value) != int64(low)>>63 {
				return false, false
			}
			value = int64(low)
		case xlashapev1.Expression_KIND_FLOOR_DIVIDE:
			quotient := value / right
			if value%right < 0 {
				quotient--
			}
			value = quotient
		case xlashapev1.Expression_KIND_CEIL_DIVIDE:
			quotient := value / right
			if value%right > 0 {
				quotient++
			}
			value = quotient
		case xlashapev1.Expression_KIND_MODULO:
			if value %= right; value < 0 {
				value += right
			}
		case xlashapev1.Expression_KIND_MINIMUM:
			value = min(value, right)
		default:
			value = max(value, right)
		}
		registers[s.target] = value
	}
	for _, constraint := range m.constraints {
		if value := registers[constraint.register]; value < constraint.lower || value > constraint.upper {
			return false, true
		}
	}
	for i, register := range m.results {
		result[i] = registers[register]
	}
	return true, true
}

var (
	leastOf128Bits    = new(big.Int).Lsh(big.NewInt(-1), 127)
	greatestOf128Bits = new(big.Int).Not(leastOf128Bits)
)

// evaluateExactly works with integers of 128 bits. A value that does not fit is nil, and so is what is computed from it.
func (m *EvaluableMap) evaluateExactly(inputs, result []int64) (bool, error) {
	registers := make([]*big.Int, m.registers)
	for i, value := range inputs {
		registers[i] = big.NewInt(value)
	}
	for _, s := range m.steps {
		left, right := registers[s.left], registers[s.right]
		registers[s.target] = nil
		if left == nil || right == nil {
			continue
		}
		value := exactly(s.kind, left, right)
		if value.Cmp(leastOf128Bits) >= 0 && value.Cmp(greatestOf128Bits) <= 0 {
			registers[s.target] = value
		}
	}
	isTooLarge := false
	for _, constraint := range m.constraints {
		value := registers[constraint.register]
		if value != nil && (value.Cmp(big.NewInt(constraint.lower)) < 0 || value.Cmp(big.NewInt(constraint.upper)) > 0) {
			return false, nil
		}
		isTooLarge = isTooLarge || value == nil
	}
	for _, register := range m.results {
		isTooLarge = isTooLarge || registers[register] == nil
	}
	if isTooLarge {
		return false, errors.New("an expression takes a value of more than 128 bits")
	}
	for i, register := range m.results {
		if !registers[register].IsInt64() {
			return false, fmt.Errorf("result %d does not fit int64: %s", i, registers[register])
		}
		result[i] = registers[register].Int64()
	}
	return true, nil
}

func exactly(kind xlashapev1.Expression_Kind, left, right *big.Int) *big.Int {
	value := new(big.Int)
	switch kind {
	case xlashapev1.Expression_KIND_ADD:
		return value.Add(left, right)
	case xlashapev1.Expression_KIND_MULTIPLY:
		return value.Mul(left, right)
	case xlashapev1.Expression_KIND_FLOOR_DIVIDE: // Div and Mod are Euclidean, which for positive divisors is the floor
		return value.Div(left, right)
	case xlashapev1.Expression_KIND_CEIL_DIVIDE:
		return value.Neg(value.Div(value.Neg(left), right))
	case xlashapev1.Expression_KIND_MODULO:
		return value.Mod(left, right)
	}
	if (right.Cmp(left) < 0) == (kind == xlashapev1.Expression_KIND_MINIMUM) {
		return right
	}
	return left
}

func divides(kind xlashapev1.Expression_Kind) bool {
	return kind >= xlashapev1.Expression_KIND_FLOOR_DIVIDE && kind <= xlashapev1.Expression_KIND_MODULO
}
