// The lists of a kubeconfig: clusters, users and contexts, each entry known by its name.
import { AppError } from "@gpve/contracts/errors.ts";
import { type Document, isMap, isSeq } from "yaml";
import type { ConfigDocument } from "../config/document.ts";

/** In the place of the one of its name, else behind the others. */
export function putNamed(document: Document, list: string, entry: ConfigDocument): void {
  const index = positionOf(document, list, entry["name"]);
  if (index >= 0) document.setIn([list, index], document.createNode(entry));
  else if (isSeq(document.get(list))) document.addIn([list], document.createNode(entry));
  else document.set(list, document.createNode([entry]));
}

/** -1 when there is none; a list that is missing or null is empty. */
export function positionOf(document: Document, list: string, name: unknown): number {
  const items = document.get(list);
  if (items === undefined || items === null) return -1;
  if (!isSeq(items)) {
    throw new AppError("config.invalid", `${list} of the kubeconfig is no list; it was left as it is`);
  }
  return items.items.findIndex((item) => isMap(item) && item.get("name") === name);
}
