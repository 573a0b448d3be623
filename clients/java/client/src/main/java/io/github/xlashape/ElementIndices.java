package io.github.xlashape;

/**
 * The indices of the elements at some positions of a buffer. Two values are equal if they hold the same arrays.
 *
 * @param indices the indices one after another, each with one number for every dimension of the shape; the numbers for padding are -1
 * @param isElement for each position, whether it holds an element; if not, it is padding
 */
public record ElementIndices(long[] indices, boolean[] isElement) {}
