// The documents of a machine's configuration, in Talos' order.
import type { ConfigDocument } from "./document.ts";
import type { ConfigInputs, MachineRole } from "./inputs.ts";
import { kubernetesDocuments } from "./kubernetes-documents.ts";
import { machineDocuments } from "./machine-documents.ts";
import { v1alpha1Document } from "./v1alpha1-document.ts";

export function generateConfig(role: MachineRole, inputs: ConfigInputs): readonly ConfigDocument[] {
  return [v1alpha1Document(role, inputs), ...machineDocuments(inputs), ...kubernetesDocuments(role, inputs)];
}
