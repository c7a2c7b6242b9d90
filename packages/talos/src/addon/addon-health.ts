// Whether an object does what it is for. Kinds without a state are well when they are there.
import { isObject } from "@gpve/client/response-error.ts";
import { type Fields, fieldsOf } from "@gpve/contracts/json-object.ts";
import type { KubernetesObject } from "../kubernetes/kubernetes.ts";

const gates: Readonly<Record<string, (object: Fields) => boolean>> = {
  Deployment: (object) => {
    const wanted = count(fieldsOf(object["spec"])["replicas"], 1);
    const { updatedReplicas, availableReplicas } = status(object);
    return isSeen(object) && count(updatedReplicas) >= wanted && count(availableReplicas) >= wanted;
  },
  StatefulSet: (object) => {
    const wanted = count(fieldsOf(object["spec"])["replicas"], 1);
    const { readyReplicas, updatedReplicas } = status(object);
    return isSeen(object) && count(readyReplicas) >= wanted && count(updatedReplicas, wanted) >= wanted;
  },
  DaemonSet: (object) => {
    const { desiredNumberScheduled, updatedNumberScheduled, numberAvailable } = status(object);
    const wanted = count(desiredNumberScheduled);
    return isSeen(object) && count(updatedNumberScheduled) >= wanted && count(numberAvailable) >= wanted;
  },
  Job: (object) => isTrue(object, "Complete"),
  CustomResourceDefinition: (object) => isTrue(object, "Established"),
  APIService: (object) => isTrue(object, "Available"),
};

export const hasGate = ({ kind }: Pick<KubernetesObject, "kind">): boolean => Object.hasOwn(gates, kind);

export function isHealthy(kind: string, object: Fields | undefined): boolean {
  if (object === undefined) return false;
  return gates[kind]?.(object) ?? true;
}

/** The state is of what was asked for last. */
const isSeen = (object: Fields): boolean =>
  count(status(object)["observedGeneration"]) >= count(fieldsOf(object["metadata"])["generation"]);

function isTrue(object: Fields, type: string): boolean {
  const { conditions } = status(object);
  return (
    Array.isArray(conditions) &&
    conditions.some((each) => isObject(each) && each["type"] === type && each["status"] === "True")
  );
}

const status = (object: Fields): Fields => fieldsOf(object["status"]);
const count = (value: unknown, fallback = 0): number => (typeof value === "number" ? value : fallback);
