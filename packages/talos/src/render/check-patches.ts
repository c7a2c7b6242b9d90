// Whether every patch fits, without the cluster's secrets: made-up ones take their places.
import type { SecretsBundle } from "../secrets/bundle.ts";
import { machineConfig, type RenderSource, roleConfig } from "./machine-config.ts";

const pair = { crt: "certificate", key: "key" };
const madeUp: SecretsBundle = {
  cluster: { id: "id", secret: "secret" },
  bootstrapToken: "token",
  encryption: { kind: "secretbox", secret: "secret" },
  trustdToken: "token",
  certs: { etcd: pair, k8s: pair, k8sAggregator: pair, k8sServiceAccount: pair, os: pair },
};

/** Refuses (config.invalid, finding patch-unreadable) what cannot be rendered. */
export function checkPatches(source: Omit<RenderSource, "secrets">): void {
  const whole = { ...source, secrets: madeUp };
  roleConfig(whole, "controlplane");
  roleConfig(whole, "worker");
  for (const machine of source.machines) machineConfig(whole, machine);
}
