package io.github.xlashape;

/**
 * The calls of {@link XlashapeClient} that have one answer, without waiting for it. A future that fails has an {@link XlashapeException}. Cancelling a
 * future cancels its call.
 */
public final class AsyncXlashapeClient extends AsyncClientMethods {
  AsyncXlashapeClient(Calls calls) {
    super(calls);
  }
}
