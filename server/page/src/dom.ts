/** Elements. Texts become text nodes: nothing that a user or a module says is ever read as HTML. */

export type Child = Node | string | number | false | null | undefined | readonly Child[];
type Listener = (event: never) => void;
export type Attributes = Readonly<Record<string, string | number | boolean | Listener | null | undefined>>;

type Tag<Name extends string> = Name extends `${infer Before}.${string}` ? Before : Name;
type Html<Name extends string> = Tag<Name> extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[Tag<Name>] : HTMLElement;
type Svg<Name extends string> = Tag<Name> extends keyof SVGElementTagNameMap ? SVGElementTagNameMap[Tag<Name>] : SVGElement;

/** An element: `h("button.primary", { type: "button", onclick: save }, "Save")`. `on…` are listeners, `false`, null and undefined leave an attribute out. */
export function h<Name extends string>(name: Name, attributes: Attributes = {}, ...children: Child[]): Html<Name> {
  const [tag = "div", ...classes] = name.split(".");
  return filled(document.createElement(tag) as Html<Name>, classes, attributes, children);
}

/** The same for SVG. */
export function svg<Name extends string>(name: Name, attributes: Attributes = {}, ...children: Child[]): Svg<Name> {
  const [tag = "g", ...classes] = name.split(".");
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag) as Svg<Name>, classes, attributes, children);
}

/** Calls at once, and then each second while somebody can see the page, until the function that it returns is called. */
export function everySecond(action: () => void): () => void {
  let timer = 0;
  const begin = (): void => {
    clearInterval(timer);
    if (document.hidden) return;
    action();
    timer = window.setInterval(action, 1000);
  };
  document.addEventListener("visibilitychange", begin);
  begin();
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", begin);
  };
}

function filled<Made extends Element>(element: Made, classes: string[], attributes: Attributes, children: readonly Child[]): Made {
  element.classList.add(...classes);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value as unknown as EventListener);
    } else if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  put(element, children);
  return element;
}

function put(parent: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) {
      put(parent, child as readonly Child[]);
    } else if (child !== undefined && child !== null && child !== false) {
      parent.append(child instanceof Node ? child : String(child as string | number));
    }
  }
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  put(parent, children);
}
