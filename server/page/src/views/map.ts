export { mountMap as mount } from "./element.js";
