// Objects do not change, they are replaced: their JSON is made once and shared by lists, reads and watches.
import type { V1List, V1Object } from "@gpve/contracts/v1/object.ts";

const known = new WeakMap<V1Object, string>();

export function objectJson(object: V1Object): string {
  const ready = known.get(object);
  if (ready !== undefined) return ready;
  const made = JSON.stringify(object);
  known.set(object, made);
  return made;
}

export function listJson(list: V1List): string {
  const { items, ...head } = list;
  return `${JSON.stringify(head).slice(0, -1)},"items":[${items.map(objectJson).join(",")}]}`;
}

/** A body that is JSON already. */
export class ReadyJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}
