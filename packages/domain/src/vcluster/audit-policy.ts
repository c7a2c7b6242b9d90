// What the API server of a cluster writes down of what is asked of it: who did what to which object, never what was in it.
// What the cluster's own parts ask of each other all the time is left out.

type Json = Readonly<Record<string, unknown>>;

/** Each file may become so large; older ones are kept beside it. */
export const AUDIT_FILE_MIB = 10;
export const AUDIT_OLD_FILES = 3;
export const AUDIT_DAYS = 30;

const none = (rule: Json): Json => ({ level: "None", ...rule });

export const auditPolicy: Json = {
  apiVersion: "audit.k8s.io/v1",
  kind: "Policy",
  // One line for each request: when it was answered.
  omitStages: ["RequestReceived"],
  rules: [
    none({
      nonResourceURLs: ["/healthz*", "/readyz*", "/livez*", "/version", "/openapi*", "/api*", "/apis*"],
    }),
    none({ resources: [{ group: "", resources: ["events"] }, { group: "events.k8s.io" }] }),
    none({ resources: [{ group: "coordination.k8s.io", resources: ["leases"] }] }),
    none({
      users: ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "gpve-agent"],
      verbs: ["get", "list", "watch"],
    }),
    none({
      userGroups: ["system:nodes", "system:serviceaccounts:kube-system"],
      verbs: ["get", "list", "watch"],
    }),
    none({
      userGroups: ["system:nodes"],
      resources: [{ group: "", resources: ["nodes/status", "pods/status"] }],
    }),
    { level: "Metadata" },
  ],
};
