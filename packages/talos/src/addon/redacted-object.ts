// An object as people may see it.
import { isObject } from "@gpve/client/response-error.ts";
import type { KubernetesObject } from "../kubernetes/kubernetes.ts";

/** Values of Secrets are not shown. */
export function redactedObject(object: KubernetesObject): KubernetesObject {
  if (object.kind !== "Secret") return object;
  const hidden = (value: unknown): unknown =>
    isObject(value) ? Object.fromEntries(Object.keys(value).map((key) => [key, "(hidden)"])) : value;
  return {
    ...object,
    ...("data" in object ? { data: hidden(object["data"]) } : {}),
    ...("stringData" in object ? { stringData: hidden(object["stringData"]) } : {}),
  };
}
