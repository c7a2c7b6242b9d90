// Authorities that are replaced while everybody keeps working: first every machine accepts the new one, then every
// machine issues with it, then nobody accepts the old one any more. Each phase is over on every machine before the next
// one begins, so that no two machines ever know nothing of each other's authority.
import { X509Certificate } from "node:crypto";
import { given } from "@gpve/contracts/given.ts";
import { createAuthority } from "./authority.ts";
import type { AuthorityName, CertificateAndKey, RotationPhase, SecretsBundle } from "./bundle.ts";

export interface RotationChoice {
  readonly talos: boolean;
  readonly kubernetes: boolean;
}

/** With new authorities that nobody knows yet. */
export async function beginRotation(
  bundle: SecretsBundle,
  { talos, kubernetes }: RotationChoice,
  now: number,
): Promise<SecretsBundle> {
  const make = (organization: string, keyKind: "ecdsa" | "ed25519") =>
    createAuthority({ organization, keyKind, now });
  const [os, k8s] = await Promise.all([
    talos ? make("talos", "ed25519") : undefined,
    kubernetes ? make("kubernetes", "ecdsa") : undefined,
  ]);
  return { ...bundle, rotation: { phase: "accept", ...given({ os, k8s }) } };
}

/** What every machine is to have next; after the last phase there is no rotation any more. */
export function nextPhase(bundle: SecretsBundle): SecretsBundle {
  const { rotation, ...rest } = bundle;
  if (rotation === undefined) return bundle;
  if (rotation.phase === "remove") return rest;
  if (rotation.phase === "issue") return { ...rest, rotation: { ...rotation, phase: "remove" } };
  const { os, k8s } = bundle.certs;
  return {
    ...rest,
    certs: { ...bundle.certs, os: rotation.os ?? os, k8s: rotation.k8s ?? k8s },
    rotation: {
      phase: "issue",
      ...given({
        os: rotation.os === undefined ? undefined : os,
        k8s: rotation.k8s === undefined ? undefined : k8s,
      }),
    },
  };
}

/** The new authorities alone: what is left once the old ones are gone. */
export function withoutOld({ rotation: _old, ...bundle }: SecretsBundle): SecretsBundle {
  return bundle;
}

/** What machines accept beside what they issue with. */
export function acceptedBeside({ rotation }: SecretsBundle, name: AuthorityName): readonly string[] {
  const other = rotation?.phase === "remove" ? undefined : rotation?.[name];
  return other === undefined ? [] : [other.crt];
}

/** Whom a client believes: a machine that is one phase behind shows the other one's certificate. */
export function trustedBy({ certs, rotation }: SecretsBundle, name: AuthorityName): string {
  const pairs: readonly (CertificateAndKey | undefined)[] = [certs[name], rotation?.[name]];
  return pairs.flatMap((pair) => (pair === undefined ? [] : [pair.crt])).join("");
}

/** By which a cluster is known in files of people, also when its authorities are others by now. */
export function certificatePrints(pem: string): readonly string[] {
  return (pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []).flatMap((text) => {
    try {
      return [new X509Certificate(text).fingerprint256];
    } catch {
      return [];
    }
  });
}

/** Of the authorities that are on their way out. */
export function formerPrints({ rotation }: SecretsBundle): readonly string[] {
  if (rotation === undefined || rotation.phase === "accept") return [];
  return certificatePrints(`${rotation.os?.crt ?? ""}${rotation.k8s?.crt ?? ""}`);
}

const order: readonly RotationPhase[] = ["accept", "issue", "remove"];

export const isRotationPhase = (text: unknown): text is RotationPhase =>
  order.some((phase) => phase === text);
