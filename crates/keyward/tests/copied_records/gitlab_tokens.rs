//! The same with GitLab's tokens, which are put into a Secret in place.

use crate::forge::openings::settled;
use crate::forge::{EXPORT, Kind, NAME, hours};
use crate::people::{in_the_first_format, under_another_name};

const COPY: &str = "copy";
const LEDGER: &str = "keyward.dev/ledger";

#[tokio::test]
async fn a_copied_gitlab_token_ends_nothing_of_the_originals() {
    for is_first in [false, true] {
        for same_export in [true, false] {
            let what = format!("first format {is_first}, same export {same_export}");
            let (forge, operator, id) = settled().await;
            assert!(forge.hold(EXPORT, "example.org/consumer").await);
            let all = forge
                .server
                .objects("gitlabprojectaccesstokens.token-rotator.org");
            let mut original = (*all[0]).clone();
            if is_first {
                let note = &mut original["metadata"]["annotations"][LEDGER];
                *note = in_the_first_format(note.as_str().unwrap()).into();
            }
            let mut copy = under_another_name(&original, COPY);
            if !same_export {
                copy["spec"]["export"]["name"] = "copy-token".into();
            }
            forge.create(copy).await;
            if same_export || is_first {
                // It may not have the Secret, so that it has no token either. And a ledger of the first format, which
                // names nobody, forbids it another Secret.
                forge
                    .until("it is refused", || async {
                        forge.ready(Kind::Project, COPY).await["status"] == "False"
                    })
                    .await;
            } else {
                forge
                    .until("the copy has its own", || async {
                        let own = forge.current_of(Kind::Project, COPY).await;
                        forge.is_settled(Kind::Project, COPY).await && own != id && own != 0
                    })
                    .await;
                forge.until_told_of("LedgerOfAnother").await;
                forge
                    .annotate(Kind::Project, COPY, "keyward.dev/rotate", "again")
                    .await;
                let first = forge.current_of(Kind::Project, COPY).await;
                forge
                    .until("the copy rotates", || async {
                        forge.current_of(Kind::Project, COPY).await != first
                    })
                    .await;
            }
            assert!(forge.live().contains(&id), "{what}");
            forge.delete(Kind::Project, COPY).await;
            forge
                .until(&format!("the copy is gone: {what}"), || async {
                    forge.later(&operator, hours(1));
                    forge.object(Kind::Project, COPY).await.is_none()
                })
                .await;
            forge.calm(&operator).await;
            assert_eq!(forge.current_of(Kind::Project, NAME).await, id, "{what}");
            forge.assert_live(&[id]);
        }
    }
}
