package io.github.xlashape;

/**
 * The values of a map at some points. Two values are equal if they hold the same arrays.
 *
 * @param results the results one after another, for each point as many as the map has; 0 for points outside the domain
 * @param inDomain for each point, whether it is in the map's domain
 */
public record MapValues(long[] results, boolean[] inDomain) {}
