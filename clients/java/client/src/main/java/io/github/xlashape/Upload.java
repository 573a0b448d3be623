package io.github.xlashape;

import io.github.xlashape.v1.Module;

/**
 * How a module was stored.
 *
 * @param module the module, as the server describes it
 * @param sent whether the content was sent; if not, the server had it already
 */
public record Upload(Module module, boolean sent) {}
