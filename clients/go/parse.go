package xlashape

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// maxNesting bounds parentheses within each other in the text of a map.
const maxNesting = 10_000

var (
	tokens  = regexp.MustCompile(`->|[\w$]+|\S`)
	name    = regexp.MustCompile(`^[A-Za-z_$]`)
	kindsOf = map[string]xlashapev1.Expression_Kind{
		"*": xlashapev1.Expression_KIND_MULTIPLY, "/": xlashapev1.Expression_KIND_FLOOR_DIVIDE, "floordiv": xlashapev1.Expression_KIND_FLOOR_DIVIDE,
		"ceildiv": xlashapev1.Expression_KIND_CEIL_DIVIDE, "mod": xlashapev1.Expression_KIND_MODULO,
	}
)

// ParseMap reads a map in text, as XLA or as MLIR writes it:
//
//	(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3], d0 + s0 in [0, 11]
//
// Runtime variables stand in braces: (d0){rt0} -> (d0 + rt0); the lines after "runtime variables:", which say where their values come from, are not
// read. Expressions have +, -, *, / or floordiv, ceildiv, mod, min(a, b) and max(a, b). The Reason of the error is PARSE, with line and column, or one
// of NewMap.
func ParseMap(text string) (*Map, error) {
	message := &xlashapev1.IndexingMap{}
	text, _, _ = strings.Cut(text, "\nruntime variables:")
	switch strings.Join(strings.Fields(text), " ") {
	case "KNOWN EMPTY":
		message.State = xlashapev1.IndexingMap_STATE_KNOWN_EMPTY
	case "UNDEFINED":
		message.State = xlashapev1.IndexingMap_STATE_UNDEFINED
	default:
		p := &mapParser{text: text, places: append(tokens.FindAllStringIndex(text, -1), []int{len(text), len(text)}), message: message,
			nodes: map[string]uint32{}, variables: map[uint32]*xlashapev1.Variable{}}
		if err := p.parse(); err != nil {
			return nil, err
		}
	}
	return NewMap(message)
}

// mapParser reads a map by recursive descent. The first mistake is a panic, which parse recovers.
type mapParser struct {
	text      string
	places    [][]int // where tokens begin and end; the last one is empty, at the end of the text
	message   *xlashapev1.IndexingMap
	nodes     map[string]uint32               // the expression of each variable, by name
	variables map[uint32]*xlashapev1.Variable // by expression
	nesting   int
}

func (p *mapParser) parse() (err error) {
	defer func() {
		if found := recover(); found != nil {
			err = found.(*Error) // anything else is a bug, and panics again
		}
	}()
	p.message.Dimensions = p.declared("(", ")", "d", xlashapev1.Expression_KIND_DIMENSION)
	if p.token() == "[" {
		p.message.Ranges = p.declared("[", "]", "s", xlashapev1.Expression_KIND_RANGE)
	}
	if p.token() == "{" {
		p.message.Runtime = p.declared("{", "}", "rt", xlashapev1.Expression_KIND_RUNTIME)
	}
	p.expect("->")
	p.list("(", ")", func() { p.message.Results = append(p.message.Results, p.sum()) })
	p.take(",")
	if p.take("domain") {
		p.expect(":")
		for p.token() != "" {
			p.interval()
			if !p.take(",") {
				break
			}
		}
	}
	if p.token() != "" {
		p.fail("the end of the text")
	}
	for _, variable := range p.variables {
		if variable.Bounds == nil {
			p.fail("a domain with an interval for every variable")
		}
	}
	return nil
}

func (p *mapParser) token() string { return p.text[p.places[0][0]:p.places[0][1]] }

// take passes a token if it is the given one.
func (p *mapParser) take(token string) bool {
	if p.token() != token {
		return false
	}
	p.places = p.places[1:]
	return true
}

func (p *mapParser) expect(token string) {
	if !p.take(token) {
		p.fail(strconv.Quote(token))
	}
}

func (p *mapParser) fail(expected string) {
	before, found := p.text[:p.places[0][0]], "the end of the text"
	if p.token() != "" {
		found = strconv.Quote(p.token())
	}
	line := before[strings.LastIndexByte(before, '\n')+1:]
	panic(&Error{Code: codes.InvalidArgument, Reason: "PARSE", Message: "expected " + expected + ", found " + found,
		Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(line) + 1})
}

// list reads items between two tokens, with commas between them.
func (p *mapParser) list(open, end string, item func()) {
	p.expect(open)
	for !p.take(end) {
		item()
		if p.token() != end {
			p.expect(",")
		}
	}
}

// declared reads the names of variables, and makes an expression of each.
func (p *mapParser) declared(open, end, prefix string, kind xlashapev1.Expression_Kind) (variables []*xlashapev1.Variable) {
	p.list(open, end, func() {
		token, number := p.token(), len(variables)
		if _, taken := p.nodes[token]; taken || !name.MatchString(token) {
			p.fail("the name of a new variable")
		}
		p.take(token)
		variable := &xlashapev1.Variable{Name: token}
		if token == prefix+strconv.Itoa(number) {
			variable.Name = ""
		}
		p.nodes[token] = p.add(kind, int64(number))
		p.variables[p.nodes[token]] = variable
		variables = append(variables, variable)
	})
	return variables
}

// interval reads `expression in [lower, upper]`: of a variable its bounds, of anything else a constraint.
func (p *mapParser) interval() {
	if p.take("is_simplified") {
		p.expect(":")
		p.take(p.token())
		return
	}
	expression := p.sum()
	p.expect("in")
	p.expect("[")
	lower := p.integer()
	p.expect(",")
	interval := &xlashapev1.Interval{Lower: lower, Upper: p.integer()}
	p.expect("]")
	variable := p.variables[expression]
	if variable == nil {
		p.message.Constraints = append(p.message.Constraints, &xlashapev1.Constraint{Expression: expression, Bounds: interval})
		return
	}
	if known := variable.Bounds; known != nil {
		interval.Lower, interval.Upper = max(interval.Lower, known.Lower), min(interval.Upper, known.Upper)
	}
	variable.Bounds = interval
}

// integer reads digits, and a sign that belongs to them: the least int64 has no positive counterpart.
func (p *mapParser) integer() int64 {
	sign := ""
	if p.take("-") {
		sign = "-"
	}
	value, err := strconv.ParseInt(sign+p.token(), 10, 64)
	if err != nil {
		p.fail("an integer of 64 bits")
	}
	p.take(p.token())
	return value
}

func (p *mapParser) add(kind xlashapev1.Expression_Kind, value int64, operands ...uint32) uint32 {
	p.message.Expressions = append(p.message.Expressions, &xlashapev1.Expression{Kind: kind, Value: value, Operands: operands})
	return uint32(len(p.message.Expressions) - 1)
}

// operation adds an operation, or its value if both operands are constants and the value fits.
func (p *mapParser) operation(kind xlashapev1.Expression_Kind, first, second uint32) uint32 {
	left, right := p.message.Expressions[first], p.message.Expressions[second]
	isConstant := left.Kind == xlashapev1.Expression_KIND_CONSTANT && right.Kind == xlashapev1.Expression_KIND_CONSTANT
	if isConstant && !(divides(kind) && right.Value <= 0) {
		if value := exactly(kind, big.NewInt(left.Value), big.NewInt(right.Value)); value.IsInt64() {
			return p.add(xlashapev1.Expression_KIND_CONSTANT, value.Int64())
		}
	}
	return p.add(kind, 0, first, second)
}

func (p *mapParser) negative(of uint32) uint32 {
	return p.operation(xlashapev1.Expression_KIND_MULTIPLY, of, p.add(xlashapev1.Expression_KIND_CONSTANT, -1))
}

func (p *mapParser) sum() uint32 {
	sum := p.product()
	for {
		switch {
		case p.take("+"):
			sum = p.operation(xlashapev1.Expression_KIND_ADD, sum, p.product())
		case p.take("-"):
			sum = p.operation(xlashapev1.Expression_KIND_ADD, sum, p.negative(p.product()))
		default:
			return sum
		}
	}
}

func (p *mapParser) product() uint32 {
	product := p.operand()
	for {
		kind, is := kindsOf[p.token()]
		if !is {
			return product
		}
		p.take(p.token())
		product = p.operation(kind, product, p.operand())
	}
}

func (p *mapParser) operand() uint32 {
	if p.nesting++; p.nesting > maxNesting {
		p.fail("at most " + strconv.Itoa(maxNesting) + " levels of an expression")
	}
	defer func() { p.nesting-- }()
	token, next := p.token(), ""
	if token != "" {
		next = p.text[p.places[1][0]:p.places[1][1]]
	}
	isDigit := func(text string) bool { return text != "" && text[0] >= '0' && text[0] <= '9' }
	node, isVariable := p.nodes[token]
	switch {
	case isVariable:
		p.take(token)
		return node
	case isDigit(token) || token == "-" && isDigit(next):
		return p.add(xlashapev1.Expression_KIND_CONSTANT, p.integer())
	case p.take("-"):
		return p.negative(p.operand())
	case p.take("("):
		inner := p.sum()
		p.expect(")")
		return inner
	case token == "min" || token == "max":
		kind := xlashapev1.Expression_KIND_MINIMUM
		if p.take("max") {
			kind = xlashapev1.Expression_KIND_MAXIMUM
		} else {
			p.take("min")
		}
		p.expect("(")
		first := p.sum()
		p.expect(",")
		second := p.sum()
		p.expect(")")
		return p.operation(kind, first, second)
	}
	p.fail("an expression")
	return 0
}
