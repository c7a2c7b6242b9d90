/** PVE's commands that this program answers to. */
export const pveCommandNames = ["qm", "pvesh", "pvesm", "pveum", "pvenode", "vzdump"] as const;
