// Add-ons that rely on others. Of what the file itself adds, or a network of pods that somebody else brings, nothing is
// known here: that is taken to have what is needed.
import type { Problem } from "./problem.ts";
import type { Rule } from "./value-rules.ts";

const mismatch = (message: string, ...path: readonly string[]): Problem => ({
  id: "addons-mismatch",
  path: ["addons", ...path],
  message,
});

const ofCilium: Rule = ({ addons }) => {
  if (addons.cni.type !== "flannel") return [];
  const { extra, gitops } = addons;
  // Gateways of another kind may come with the file, or from a repository.
  const mayBringGateways = extra.length > 0 || gitops.flux !== undefined || gitops.argocd !== undefined;
  const needs = "which only Cilium brings; addons.cni.type is flannel";
  return [
    ...(addons.loadBalancer.type === "cilium"
      ? [mismatch(`is cilium, ${needs}`, "loadBalancer", "type")]
      : []),
    ...(addons.ingress.type === "gateway" && !mayBringGateways
      ? [mismatch(`is gateway, ${needs}`, "ingress", "type")]
      : []),
  ];
};

const defaultClass: Rule = ({ addons: { csi } }) =>
  csi.default === null || csi[csi.default] !== undefined
    ? []
    : [mismatch(`is ${csi.default}, and addons.csi.${csi.default} is not there`, "csi", "default")];

/** Without them a class is made, and every claim of it waits for ever. */
const nfsServer: Rule = ({ addons: { csi } }) =>
  csi.nfs === undefined
    ? []
    : (["server", "share"] as const).flatMap((key) =>
        isText(csi.nfs?.[key])
          ? []
          : [
              {
                id: "key-missing" as const,
                path: ["addons", "csi", "nfs", key],
                message: "is missing: volumes are made in a share of an NFS server",
              },
            ],
      );

const isText = (value: unknown): boolean => typeof value === "string" && value !== "";

export const addonRules: readonly Rule[] = [ofCilium, defaultClass, nfsServer];
