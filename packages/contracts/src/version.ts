/** Our own release. */
export const PRODUCT_VERSION = "0.2.0";

/** The PVE release whose API we speak; clients gate features on it. */
export const PVE_VERSION = "9.2.11";
export const PVE_RELEASE = "9.2";

/** PVE shows a commit id; ours spells "gpve020" in hex. */
export const REPO_ID = "6770766530323000";
