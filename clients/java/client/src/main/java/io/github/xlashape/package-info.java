/**
 * Asks an xlashape server about XLA's shapes, layouts, HLO modules and indexing maps.
 *
 * <pre>{@code
 * try (XlashapeClient client = XlashapeClient.connect("localhost:50051")) {
 *   ShapeSize size = client.byteSize(Inputs.shape("f32[3,5]{1,0:T(2,2)}"));
 *   System.out.println(size.getPhysicalBytes()); // 96
 * }
 * }</pre>
 *
 * <p>Answers are the messages of {@link io.github.xlashape.v1}, whose comments say what each field means. Errors are {@link XlashapeException}s with the
 * field of the request that is wrong, and for text its line and column. An {@link EvaluableMap} evaluates an indexing map without the server.
 */
@NullMarked
package io.github.xlashape;

import org.jspecify.annotations.NullMarked;
