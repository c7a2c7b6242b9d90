// Whether a machine is a control plane, by what people call it, its group or its tags.

const CONTROL_PLANE = /ctrl|control|master|(^|[-_. ])cps?([-_. \d]|$)/i;
const WORKER = /worker/i;

/** The first of `names` that tells decides; "control-worker-1", of a cluster that is called control, tells nothing. */
export function isControlPlane(...names: readonly (string | undefined)[]): boolean | undefined {
  for (const name of names) {
    const [control, worker] = [CONTROL_PLANE, WORKER].map((pattern) => pattern.test(name ?? ""));
    if (control !== worker) return control;
  }
  return undefined;
}
