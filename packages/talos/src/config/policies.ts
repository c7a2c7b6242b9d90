// What Talos sets for the API server unless told otherwise.
import type { ConfigDocument } from "./document.ts";

export const podSecurityConfiguration: ConfigDocument = {
  apiVersion: "pod-security.admission.config.k8s.io/v1alpha1",
  defaults: {
    audit: "restricted",
    "audit-version": "latest",
    enforce: "baseline",
    "enforce-version": "latest",
    warn: "restricted",
    "warn-version": "latest",
  },
  exemptions: { namespaces: ["kube-system"], runtimeClasses: [], usernames: [] },
  kind: "PodSecurityConfiguration",
};

export const auditPolicy: ConfigDocument = {
  apiVersion: "audit.k8s.io/v1",
  kind: "Policy",
  rules: [{ level: "Metadata" }],
};

/** Only the health pages are open to those without a name. */
export const authenticationConfiguration: ConfigDocument = {
  anonymous: {
    conditions: [{ path: "/livez" }, { path: "/readyz" }, { path: "/healthz" }],
    enabled: true,
  },
  jwt: [],
};

/** What pods may be given of the machines' own API. */
export const talosApiAccess: ConfigDocument = {
  allowedRoles: ["os:reader"],
  allowedKubernetesNamespaces: ["kube-system"],
};

export const EXCLUDE_FROM_LOAD_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers";
export const CONTROL_PLANE_ROLE = "node-role.kubernetes.io/control-plane";
