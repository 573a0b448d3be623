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

  private final String text;
  private final IndexingMap.Builder map = IndexingMap.newBuilder();
  private final Map<String, Integer> nodes = new HashMap<>(); // the expression of each variable
  private final Map<Integer, Variable.Builder> variables = new HashMap<>(); // by their expressions
  private int levels;
  private int start;
  private int end;
  private String token = ""; // text[start:end]; empty at the end of the text

  private MapParser(String text) {
    this.text = text;
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
        parser.next();
        parser.map();
        return parser.map.build();
    }
  }

  private void next() {
    start = nextStart();
    end = start;
    while (end < text.length() && isWord(text.charAt(end))) {
      end++;
    }
    if (end == start && end < text.length()) {
      end += text.startsWith("->", start) ? 2 : Character.charCount(text.codePointAt(start));
    }
    token = text.substring(start, end);
  }

  private int nextStart() {
    int next = end;
    while (next < text.length() && " \t\r\n".indexOf(text.charAt(next)) >= 0) {
      next++;
    }
    return next;
  }

  private static boolean isWord(char c) {
    return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z';
  }

  private static boolean isDigit(String token) {
    return !token.isEmpty() && token.charAt(0) >= '0' && token.charAt(0) <= '9';
  }

  private XlashapeException expected(String what) {
    int line = 1;
    int lineStart = 0;
    for (int i = 0; i < start; i++) {
      if (text.charAt(i) == '\n') {
        line++;
        lineStart = i + 1;
      }
    }
    String found = token.isEmpty() ? "the end of the text" : "'" + (token.length() > 40 ? token.substring(0, 40) + "…" : token) + "'";
    return new XlashapeException(
        Status.Code.INVALID_ARGUMENT, "PARSE", "expected " + what + ", found " + found,
        Map.of("line", Integer.toString(line), "column", Integer.toString(text.codePointCount(lineStart, start) + 1)), null);
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
      if (token.isEmpty() || !isWord(token.charAt(0)) || isDigit(token) || nodes.containsKey(token)) {
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
    Interval.Builder interval = Interval.newBuilder().setLower(integer());
    expect(",");
    interval.setUpper(integer());
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

  /** Reads digits, and a sign that belongs to them: the least long has no positive counterpart. */
  private long integer() {
    String sign = take("-") ? "-" : "";
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

  private int operation(Kind kind, int first, int second) {
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
    if (isDigit(token) || token.equals("-") && isDigit(text.substring(nextStart(), Math.min(nextStart() + 1, text.length())))) {
      return constant(integer());
    }
    if (take("-")) {
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
