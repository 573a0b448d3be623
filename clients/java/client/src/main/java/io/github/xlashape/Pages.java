package io.github.xlashape;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.stream.Stream;

/** The items of all pages of a list. A page is fetched when its first item is read. */
final class Pages<T> implements Iterator<T> {
  private final Function<String, Page<T>> fetch;
  private String token;
  private boolean isLast;
  private Iterator<T> items = List.<T>of().iterator();

  /** A page, and the token of the next one, empty on the last page. */
  record Page<T>(List<T> items, String next) {}

  private Pages(String token, Function<String, Page<T>> fetch) {
    this.token = token;
    this.fetch = fetch;
  }

  static <T> Stream<T> stream(String token, Function<String, Page<T>> fetch) {
    return Calls.streamOf(new Pages<>(token, fetch));
  }

  @Override
  public boolean hasNext() {
    while (!items.hasNext() && !isLast) {
      Page<T> page = fetch.apply(token);
      items = page.items().iterator();
      token = page.next();
      isLast = token.isEmpty();
    }
    return items.hasNext();
  }

  @Override
  public T next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    return items.next();
  }
}
