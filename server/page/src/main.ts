/** Starts the page. */

import { Shell } from "./shell.js";

new Shell(document.body).start();
