package io.github.xlashape;

import io.github.xlashape.v1.Constraint;
import io.github.xlashape.v1.Expression;
import io.github.xlashape.v1.Expression.Kind;
import io.github.xlashape.v1.IndexingMap;
import io.github.xlashape.v1.Interval;
import io.github.xlashape.v1.Variable;
import io.grpc.Status;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads the text of a map.
 *
 * <pre>
 * map        = "KNOWN EMPTY" | "UNDEFINED" | "(" names ")" [ "[" names "]" ] [ "{" names "}" ] "-&gt;" "(" expressions ")" [ "," ] [ domain ]
 * domain     = "domain" ":" { bounds "," }
 * bounds     = expression "in" "[" integer "," integer "]" | "is_simplified" ":" word
 * expression = product { ( "+" | "-" ) product }
 * product    = operand { ( "*" | "/" | "floordiv" | "ceildiv" | "mod" ) operand }
 * operand    = "-" operand | "(" expression ")" | ( "min" | "max" ) "(" expression "," expression ")" | name | integer
 * </pre>
 */
final class MapParser {
  /** Bounds parentheses within each other, and with them the stack. */
  private static final int MAX_LEVELS = 1000;

  private static final Map<String, Kind> FACTORS = Map.of(
      "*", Kind.KIND_MULTIPLY, "/", Kind.KIND_FLOOR_DIVIDE, "floordiv", Kind.KIND_FLOOR_DIVIDE, "ceildiv", Kind.KIND_CEIL_DIVIDE,
      "mod", Kind.KIND_MODULO);

  private static final Pattern NAME = Pattern.compile("[a-zA-Z_$][\\w$]*");

  /** Spaces, and after them an arrow, a word, or any other character; nothing at the end of the text. */
  private static final Pattern TOKEN = Pattern.compile("[ \\t\\r\\n]*+(->|[\\w$]++|(?s:.)|)");

  private final String text;
  private final Matcher tokens;
  private final IndexingMap.Builder map = IndexingMap.newBuilder();
  private final Map<String, Integer> nodes = new HashMap<>(); // the expression of each variable
  private final Map<Integer, Variable.Builder> variables = new HashMap<>(); // by their expressions
  private int levels;
  private int start;
  private String token = ""; // at `start`; empty at the end of the text

  private MapParser(String text) {
    this.text = text;
    tokens = TOKEN.matcher(text);
    next();
  }

  static IndexingMap parse(String text) {
    int sources = text.indexOf("\nruntime variables:");
    String map = sources < 0 ? text : text.substring(0, sources);
    switch (map.strip().replaceAll("\\s+", " ")) {
      case "KNOWN EMPTY":
        return IndexingMap.newBuilder().setState(IndexingMap.State.STATE_KNOWN_EMPTY).build();
      case "UNDEFINED":
        return IndexingMap.newBuilder().setState(IndexingMap.State.STATE_UNDEFINED).build();
      default:
        MapParser parser = new MapParser(map);
        parser.map();
        return parser.map.build();
    }
  }

  private void next() {
    if (tokens.find()) {
      token = tokens.group(1);
      start = tokens.start(1);
    }
  }

  private static boolean isDigit(String token) {
    return !token.isEmpty() && token.charAt(0) >= '0' && token.charAt(0) <= '9';
  }

  private XlashapeException expected(String what) {
    String before = text.substring(0, start);
    long line = 1 + before.chars().filter(c -> c == '\n').count();
    int column = 1 + before.codePointCount(before.lastIndexOf('\n') + 1, start);
    String found = token.isEmpty() ? "the end of the text" : "'" + (token.length() > 40 ? token.substring(0, 40) + "…" : token) + "'";
    return new XlashapeException(
        Status.Code.INVALID_ARGUMENT, "PARSE", "expected " + what + ", found " + found,
        Map.of("line", Long.toString(line), "column", Integer.toString(column)), null);
  }

  /** Passes a token that is as given. */
  private boolean take(String expected) {
    if (!token.equals(expected)) {
      return false;
    }
    next();
    return true;
  }

  private void expect(String expected) {
    if (!take(expected)) {
      throw expected("'" + expected + "'");
    }
  }

  private void map() {
    names("(", ")", Kind.KIND_DIMENSION, "d");
    if (token.equals("[")) {
      names("[", "]", Kind.KIND_RANGE, "s");
    }
    if (token.equals("{")) {
      names("{", "}", Kind.KIND_RUNTIME, "rt");
    }
    expect("->");
    expect("(");
    while (!take(")")) {
      map.addResults(sum());
      if (!token.equals(")")) {
        expect(",");
      }
    }
    take(",");
    if (take("domain")) {
      expect(":");
      while (!token.isEmpty()) {
        bounds();
        if (!take(",")) {
          break;
        }
      }
    }
    if (!token.isEmpty()) {
      throw expected("the end of the text");
    }
    if (!variables.values().stream().allMatch(Variable.Builder::hasBounds)) {
      throw expected("a domain with an interval for every variable");
    }
  }

  private void names(String open, String close, Kind kind, String prefix) {
    expect(open);
    int count = 0;
    while (!take(close)) {
      if (!NAME.matcher(token).matches() || nodes.containsKey(token)) {
        throw expected("the name of a new variable");
      }
      Variable.Builder variable = switch (kind) {
        case KIND_DIMENSION -> map.addDimensionsBuilder();
        case KIND_RANGE -> map.addRangesBuilder();
        default -> map.addRuntimeBuilder();
      };
      variable.setName(token.equals(prefix + count) ? "" : token);
      nodes.put(token, add(Expression.newBuilder().setKind(kind).setValue(count++)));
      variables.put(nodes.get(token), variable);
      next();
      if (!token.equals(close)) {
        expect(",");
      }
    }
  }

  /** Reads the interval of a variable, or a constraint. */
  private void bounds() {
    if (take("is_simplified")) {
      expect(":");
      next();
      return;
    }
    int position = sum();
    expect("in");
    expect("[");
    Interval.Builder interval = Interval.newBuilder().setLower(signedInteger());
    expect(",");
    interval.setUpper(signedInteger());
    expect("]");
    Variable.Builder variable = variables.get(position);
    if (variable == null) {
      map.addConstraints(Constraint.newBuilder().setExpression(position).setBounds(interval));
      return;
    }
    if (variable.hasBounds()) {
      interval.setLower(Math.max(interval.getLower(), variable.getBounds().getLower()));
      interval.setUpper(Math.min(interval.getUpper(), variable.getBounds().getUpper()));
    }
    variable.setBounds(interval);
  }

  private long signedInteger() {
    return integer(take("-") ? "-" : "");
  }

  /** Reads digits after a sign that belongs to them: the least long has no positive counterpart. */
  private long integer(String sign) {
    if (isDigit(token)) {
      try {
        long value = Long.parseLong(sign + token);
        next();
        return value;
      } catch (NumberFormatException e) {
        // Too large, or followed by letters.
      }
    }
    throw expected("an integer of 64 bits");
  }

  private int add(Expression.Builder expression) {
    map.addExpressions(expression);
    return map.getExpressionsCount() - 1;
  }

  private int constant(long value) {
    return add(Expression.newBuilder().setKind(Kind.KIND_CONSTANT).setValue(value));
  }

  /** An operation, or its value if both operands are constants and the value fits. */
  private int operation(Kind kind, int first, int second) {
    Expression left = map.getExpressions(first);
    Expression right = map.getExpressions(second);
    boolean isConstant = left.getKind() == Kind.KIND_CONSTANT && right.getKind() == Kind.KIND_CONSTANT;
    if (isConstant && !(EvaluableMap.divides(kind) && right.getValue() <= 0)) {
      try {
        return constant(EvaluableMap.combined(kind, left.getValue(), right.getValue()));
      } catch (ArithmeticException e) {
        // A value that does not fit long is computed where the map is evaluated.
      }
    }
    return add(Expression.newBuilder().setKind(kind).addOperands(first).addOperands(second));
  }

  private int negative(int of) {
    return operation(Kind.KIND_MULTIPLY, of, constant(-1));
  }

  /** Reads an expression, and returns its position. */
  private int sum() {
    int sum = product();
    while (true) {
      if (take("+")) {
        sum = operation(Kind.KIND_ADD, sum, product());
      } else if (take("-")) {
        sum = operation(Kind.KIND_ADD, sum, negative(product()));
      } else {
        return sum;
      }
    }
  }

  private int product() {
    int product = operand();
    for (Kind kind = FACTORS.get(token); kind != null; kind = FACTORS.get(token)) {
      next();
      product = operation(kind, product, operand());
    }
    return product;
  }

  private int operand() {
    if (++levels > MAX_LEVELS) {
      throw expected("at most " + MAX_LEVELS + " levels of an expression");
    }
    int operand = innerOperand();
    levels--;
    return operand;
  }

  private int innerOperand() {
    Integer variable = nodes.get(token);
    if (variable != null) {
      next();
      return variable;
    }
    boolean isNegative = take("-");
    if (isDigit(token)) {
      return constant(integer(isNegative ? "-" : ""));
    }
    if (isNegative) {
      return negative(operand());
    }
    boolean isMinimum = token.equals("min");
    boolean isFunction = isMinimum || token.equals("max");
    if (isFunction) {
      next();
    } else if (!token.equals("(")) {
      throw expected("an expression");
    }
    expect("(");
    int inner = sum();
    if (isFunction) {
      expect(",");
      inner = operation(isMinimum ? Kind.KIND_MINIMUM : Kind.KIND_MAXIMUM, inner, sum());
    }
    expect(")");
    return inner;
  }
}
