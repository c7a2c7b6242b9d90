// What a pod of level L1 may not be: whatever makes it more than a guest on its worker, whose root is this machine's root.
// The rules lie where whoever administers the cluster can neither change nor delete them.

import { VOLUME_PATTERN } from "./local-volumes.ts";

type Json = Readonly<Record<string, unknown>>;

/** Volumes whose content is the cluster's own. All others are paths, devices or servers that the worker would mount as root. */
const VOLUMES = [
  "configMap",
  "secret",
  "emptyDir",
  "downwardAPI",
  "projected",
  "persistentVolumeClaim",
  "ephemeral",
  "image",
];
/** As Pod Security's level `baseline`. */
const CAPABILITIES = [
  "AUDIT_WRITE",
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "KILL",
  "MKNOD",
  "NET_BIND_SERVICE",
  "SETFCAP",
  "SETGID",
  "SETPCAP",
  "SETUID",
  "SYS_CHROOT",
];

/** What every refusal of the guard begins with. */
export const GUARD_WORD = "level L1";
const context = "c.?securityContext";
const each = (condition: string): string => `variables.all.all(c, ${condition})`;
const rule = (expression: string, message: string): Json => ({
  expression,
  message: `${GUARD_WORD}: ${message}`,
});

const podRules: readonly Json[] = [
  rule(
    "!variables.spec.?hostNetwork.orValue(false) && !variables.spec.?hostPID.orValue(false) && !variables.spec.?hostIPC.orValue(false)",
    "hostNetwork, hostPID and hostIPC are those of the machine",
  ),
  rule(each(`!${context}.?privileged.orValue(false)`), "privileged containers are root on the machine"),
  rule(
    `variables.spec.?volumes.orValue([]).all(v, ${VOLUMES.map((name) => `has(v.${name})`).join(" || ")})`,
    `volumes may be ${VOLUMES.join(", ")}; hostPath and others are files or servers of the machine's`,
  ),
  rule(
    each(
      `${context}.?capabilities.?add.orValue([]).all(k, k in ${JSON.stringify(CAPABILITIES).replaceAll('"', "'")})`,
    ),
    `capabilities that may be added are ${CAPABILITIES.join(", ")}`,
  ),
  rule(each(`${context}.?procMount.orValue('Default') == 'Default'`), "procMount must be Default"),
  rule(
    `variables.spec.?securityContext.?seccompProfile.?type.orValue('RuntimeDefault') != 'Unconfined' && ${each(`${context}.?seccompProfile.?type.orValue('RuntimeDefault') != 'Unconfined'`)}`,
    "a seccomp profile may not be Unconfined",
  ),
  rule(
    `variables.spec.?securityContext.?appArmorProfile.?type.orValue('RuntimeDefault') == 'RuntimeDefault' && ${each(`${context}.?appArmorProfile.?type.orValue('RuntimeDefault') == 'RuntimeDefault'`)}`,
    "an AppArmor profile must be RuntimeDefault: others are Unconfined or the machine's own",
  ),
  rule(
    "!object.?metadata.?annotations.orValue({}).exists(k, k in ['kubernetes.io/config.mirror', 'kubernetes.io/config.source'])",
    "workers have no static pods, so there is nothing that a pod could mirror",
  ),
];

/** Nobody is exempt: whoever administers the cluster can act as anybody. What is allowed is named: kinds come and go. */
const volumeRules: readonly Json[] = [
  rule(
    "has(object.spec.local)",
    "persistent volumes of the machine's files, of drivers or of servers are not offered",
  ),
  rule(
    `!has(object.spec.local) || object.spec.local.path.matches('${VOLUME_PATTERN}')`,
    "local volumes are those of the storage class `local`: claim one",
  ),
];

/**
 * How a version of Kubernetes keeps its guard: from `files` that only the API server's owner has, or as `objects` of its own API
 * that nobody but the platform may change (../platform-rights.ts). undefined = neither can be kept from its administrators.
 */
export type GuardKind = "files" | "objects";

export function guardKind(version: string): GuardKind | undefined {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 1 || minor >= 36) return "files";
  return minor >= 32 ? "objects" : undefined;
}

/** Of what it is made as objects: others cannot be told apart from those of a tenant by who may change them. */
export const GUARD_OBJECTS = "gpve-l1-";
/** What Kubernetes wants names in files to end with, and refuses in its API. */
const IN_FILES = ".static.k8s.io";

export interface GuardObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: Json;
}

/** The objects of the guard, each with its binding. */
export function guardManifests(kind: GuardKind): readonly GuardObject[] {
  const policy = policyFor(kind === "files" ? IN_FILES : ".gpve.io");
  return [
    ...policy("pods", { apiGroups: [""], resources: ["pods", "pods/ephemeralcontainers"] }, podRules, [
      { name: "spec", expression: "object.spec" },
      {
        name: "all",
        expression:
          "variables.spec.containers + variables.spec.?initContainers.orValue([]) + variables.spec.?ephemeralContainers.orValue([])",
      },
    ]),
    ...policy("volumes", { apiGroups: [""], resources: ["persistentvolumes"] }, volumeRules, []),
  ];
}

/** Whether the guard itself refused a pod: a tenant's own policies and webhooks can say its words, but not in its name. */
export function isGuardsRefusal(message: string, version: string): boolean {
  // Where it is read from files, objects of the version before may be left, and be the first to refuse.
  const kinds = guardKind(version) === "files" ? (["files", "objects"] as const) : (["objects"] as const);
  const [, refusal = ""] = /^pods(?: "[^"]*")? is forbidden: (.*)$/s.exec(message) ?? [];
  return kinds.some((kind) => {
    const name = guardManifests(kind)[0]?.metadata.name ?? "";
    return refusal.startsWith(
      `ValidatingAdmissionPolicy '${name}' with binding '${name}' denied request: ${GUARD_WORD}: `,
    );
  });
}

type Policy = (
  what: string,
  resource: Json,
  validations: readonly Json[],
  variables: readonly Json[],
) => readonly GuardObject[];

function policyFor(suffix: string): Policy {
  const apiVersion = "admissionregistration.k8s.io/v1";
  return (what, resource, validations, variables) => {
    const name = `${GUARD_OBJECTS}${what}${suffix}`;
    return [
      {
        apiVersion,
        kind: "ValidatingAdmissionPolicy",
        metadata: { name },
        spec: {
          failurePolicy: "Fail",
          matchConstraints: {
            resourceRules: [{ ...resource, apiVersions: ["v1"], operations: ["CREATE", "UPDATE"] }],
          },
          variables,
          validations,
        },
      },
      {
        apiVersion,
        kind: "ValidatingAdmissionPolicyBinding",
        metadata: { name },
        spec: { policyName: name, validationActions: ["Deny"] },
      },
    ];
  };
}

/** What tells the API server where its guard lies. */
export function admissionConfig(folder: string): string {
  return JSON.stringify({
    apiVersion: "apiserver.config.k8s.io/v1",
    kind: "AdmissionConfiguration",
    plugins: [
      {
        name: "ValidatingAdmissionPolicy",
        configuration: {
          apiVersion: "apiserver.config.k8s.io/v1",
          kind: "ValidatingAdmissionPolicyConfiguration",
          staticManifestsDir: folder,
        },
      },
    ],
  });
}
